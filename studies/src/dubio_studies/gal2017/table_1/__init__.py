"""Gal et al. 2017, table 1 and figure 7: segmentation of CamVid with Concrete dropout."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Segmentation of CamVid with DenseNet",
    about="IoU without dropout, with fixed dropout and with Concrete dropout; example images.",
    covers=("table 1", "figure 7"),
    cost={"smoke": "30 s", "small": "2 h", "paper": "weeks; days on a GPU"},
    data=("camvid", "imagenet-efficientnet-lite0"),
)
