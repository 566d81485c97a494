"""Boluki et al. 2020, table 1 and figure 2, CamVid: five kinds of dropout for segmentation."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Segmentation of CamVid with five kinds of dropout",
    about="Accuracy, IoU and PAvgPU; PAvgPU against its threshold, and what its mean measures.",
    covers=("table 1 (CamVid)", "figure 2 (CamVid)"),
    cost={
        "smoke": "40 s",
        "small": "3 h, or 2 h after gal2017/table-1",
        "paper": "weeks; days on a GPU",
    },
    data=("camvid", "imagenet-efficientnet-lite0"),
)
