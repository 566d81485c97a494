"""Gal & Ghahramani 2016, figure 1: softmax input and output far from the data."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Softmax input and output, a sketch",
    about="A point far from the data: sure by one function, not by many.",
    covers=("figure 1",),
    cost={"smoke": "2 s", "small": "10 s", "paper": "10 s"},
)
