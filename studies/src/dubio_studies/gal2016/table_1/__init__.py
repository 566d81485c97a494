"""Gal & Ghahramani 2016, table 1: MC dropout on UCI regression."""

from dubio_studies.framework.study import Card
from dubio_studies.uci import DATA

CARD = Card(
    title="UCI regression with MC dropout",
    about="RMSE and log-likelihood on ten data sets with 20 splits, compared with VI and PBP.",
    covers=("table 1",),
    cost={"smoke": "5 s", "small": "25 min", "paper": "90 min"},
    data=DATA,
)
