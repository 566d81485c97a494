"""Recommenders in a loop: what is liked joins the history, and exploring may pay."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Recommenders that explore",
    about="Rewards of Thompson sampling, upper bounds and means in a simulated feedback loop.",
    covers=("our own sequel to table 2",),
    cost={"smoke": "5 s", "small": "25 min", "paper": "3 h"},
    data=("movielens-1m",),
)
