"""Coins: a study to start from. This file is its card, which `dubio list` shows."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Coins",
    about="The share of heads against the number of throws.",
    covers=("figure 99",),
    cost={"smoke": "1 s", "small": "1 s", "paper": "1 s"},
)
