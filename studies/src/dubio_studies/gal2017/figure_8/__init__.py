"""Gal et al. 2017, figure 8: Concrete dropout rates of a segmentation network from many starts."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Rates from many starting points",
    about=(
        "Concrete rates in a segmentation network, from p = 0.05 to 0.5: do they converge to "
        "the same values?"
    ),
    covers=("figure 8",),
    cost={"smoke": "20 s", "small": "1 h, or 20 min after table 1", "paper": "as table 1"},
    data=("camvid", "imagenet-efficientnet-lite0"),
)
