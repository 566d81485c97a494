"""Boluki et al. 2020, table 2: recommenders with learned dropout."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Collaborative filtering",
    about=(
        "Semi-implicit VAEs with learned dropout compared with other models; where their gain "
        "comes from."
    ),
    covers=("table 2",),
    cost={"smoke": "15 s", "small": "60 min", "paper": "4 days"},
    data=("movielens-1m", "gowalla", "yelp2018"),
)
