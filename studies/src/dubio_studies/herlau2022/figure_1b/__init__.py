"""Herlau et al. 2022, figure 1b: dropout and ridge regression when the model is misspecified."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Misspecified regression",
    about="Dropout and ridge: default, junk features and covariate shift for p = 10, 20, 40.",
    covers=("figure 1b",),
    cost={"smoke": "1 s", "small": "15 s", "paper": "1 min"},
)
