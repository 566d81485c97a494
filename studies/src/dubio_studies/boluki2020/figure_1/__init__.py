"""Boluki et al. 2020, figure 1: gradients for dropout rates in a toy network and wider ones."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Gradients for dropout rates in a toy network",
    about="Bias, standard deviation and error of gradient estimates; error against network width.",
    covers=("figure 1",),
    cost={"smoke": "5 s", "small": "5 min", "paper": "12 min"},
)
