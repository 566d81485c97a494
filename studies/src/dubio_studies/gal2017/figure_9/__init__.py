"""Gal et al. 2017, figure 9: Concrete dropout in model-based reinforcement learning."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Model-based reinforcement learning",
    about="Rates and epistemic uncertainty of a cart-pole's dynamics model against episodes.",
    covers=("figure 9",),
    cost={"smoke": "10 s", "small": "25 min", "paper": "6 hours"},
)
