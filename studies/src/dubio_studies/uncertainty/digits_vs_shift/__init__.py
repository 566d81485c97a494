"""Digits, and images that are none: what six methods know about what they do not know."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Digits, and images that are none",
    about="Six methods on MNIST: quality, calibration, cost; Fashion-MNIST and notMNIST noticed.",
    covers=("a comparison of our own",),
    cost={"smoke": "10 s", "small": "3 min", "paper": "4 h"},
    data=("mnist", "fashion-mnist", "notmnist"),
)
