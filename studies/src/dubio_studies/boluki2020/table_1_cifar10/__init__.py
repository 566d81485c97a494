"""Boluki et al. 2020, table 1 and figure 2, CIFAR-10: learned dropout in the head of a network."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Photographs with learned dropout",
    about="Accuracy and uncertainty of seven kinds of dropout on CIFAR-10; what PAvgPU rewards.",
    covers=("table 1 (CIFAR-10)", "figure 2 (CIFAR-10)"),
    cost={"smoke": "10 s", "small": "100 min", "paper": "weeks on a GPU"},
    data=("cifar10", "imagenet-efficientnet-lite0", "imagenet-vgg16"),
)
