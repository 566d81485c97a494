"""Gal et al. 2017, table 2: calibration of segmentation with Concrete dropout."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Calibration of segmentation",
    about="Predicted probabilities against frequencies; a plot that the paper calls a table.",
    covers=("table 2",),
    cost={"smoke": "30 s", "small": "2 h, or minutes after table 1", "paper": "as table 1"},
    data=("camvid", "imagenet-efficientnet-lite0"),
)
