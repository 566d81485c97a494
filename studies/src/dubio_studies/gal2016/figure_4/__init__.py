"""Gal & Ghahramani 2016, figure 4: a digit 1, turned, and the softmax of a dropout LeNet."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="A rotated digit 1",
    about="100 passes of the softmax input and output of a dropout LeNet on a rotated digit.",
    covers=("figure 4",),
    cost={"smoke": "5 s", "small": "10 min", "paper": "5 h"},
    data=("mnist",),
)
