"""A network for CIFAR-10 that learns on one core, what averaging does for it, and other heads."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Photographs from scratch",
    about="CIFAR-10 at 94 % in half an hour of a core; averages of views and draws; six heads.",
    covers=("our own comparison",),
    cost={"smoke": "10 s", "small": "45 min", "paper": "10 h"},
    data=("cifar10",),
)
