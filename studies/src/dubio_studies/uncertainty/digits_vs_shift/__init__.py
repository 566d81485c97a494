"""Digits, and images that are none: what six methods know about what they do not know."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Digits and out-of-distribution images",
    about=(
        "Six methods on MNIST: quality, calibration, cost; detection of Fashion-MNIST and notMNIST."
    ),
    covers=("our own comparison",),
    cost={"smoke": "10 s", "small": "6 min", "paper": "4 h"},
    data=("mnist", "fashion-mnist", "notmnist"),
)
