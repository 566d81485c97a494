"""Why heads are behind Boluki et al. 2020 on CIFAR-10: frozen features, pixels, and batches."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="What frozen features cost on CIFAR-10",
    about="Accuracy of frozen and trained networks by pixels; PAvgPU summed over shuffled batches.",
    covers=("our own sequel to table 1 (CIFAR-10)",),
    cost={"smoke": "30 s", "small": "1 h", "paper": "weeks"},
    data=("cifar10", "imagenet-efficientnet-lite0", "imagenet-vgg16"),
)
