"""Gal & Ghahramani 2016, figures 5 and 6: a forager that explores by dropout."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Reinforcement learning with Thompson sampling",
    about="Average reward of Thompson sampling with dropout and of ε-greedy in a 2-d world.",
    covers=("figure 5", "figure 6"),
    cost={"smoke": "10 s", "small": "30 min", "paper": "1 h"},
)
