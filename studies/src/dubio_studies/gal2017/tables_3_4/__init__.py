"""Gal et al. 2017, tables 3 and 4: Concrete dropout on UCI regression, with figures 2 to 4."""

from dubio_studies.framework.study import Card
from dubio_studies.uci import DATA

CARD = Card(
    title="UCI regression with Concrete dropout",
    about=(
        "Log-likelihood and RMSE of networks with two hidden layers of 50, the rates of each "
        "split, and the cost of fitting the noise to rows that a network has seen."
    ),
    covers=("figure 2", "figure 3", "figure 4", "table 3", "table 4"),
    cost={"smoke": "10 s", "small": "40 min", "paper": "5 h"},
    data=DATA,
)
