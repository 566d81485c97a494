"""Gal et al. 2017, figure 10: the Concrete distribution."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="The Concrete distribution",
    about="The relaxed mask as a function of uniform noise, and its distribution, at temperature "
    "0.1.",
    covers=("figure 10",),
    cost={"smoke": "1 s", "small": "1 s", "paper": "1 s"},
)
