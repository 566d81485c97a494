"""A network for CIFAR-10 that learns on two cores, and what averaging does for it."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Photographs from scratch",
    about="CIFAR-10 on two cores in minutes: a small network; flips, shifts and dropout averaged.",
    covers=("a comparison of our own",),
    cost={"smoke": "10 s", "small": "40 min", "paper": "10 h"},
    data=("cifar10",),
)
