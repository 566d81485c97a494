"""Figures 26 and 27: what priors and learning rates do to an agent that eats mushrooms."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Mushrooms: priors and learning rates",
    about="Regret of Bayes by Backprop with other priors and learning rates, for single runs.",
    covers=("figure 26", "figure 27"),
    cost={"smoke": "10 s", "small": "15 min", "paper": "6 h"},
    data=("mushroom",),
)
