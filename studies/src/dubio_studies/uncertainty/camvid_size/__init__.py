"""What the size of images and network is worth on CamVid."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="CamVid with fewer pixels and smaller networks",
    about="Accuracy, IoU and PAvgPU by the resolution of images, the network and the epochs.",
    covers=("our own comparison",),
    cost={"smoke": "20 s", "small": "1 h", "paper": "8 h"},
    data=("camvid", "imagenet-efficientnet-lite0"),
)
