"""Gal et al. 2017, figure 1: uncertainties and rates against the number of data."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Uncertainty and rates against the number of data",
    about="Epistemic, aleatoric and predictive deviation on y = 2x + 8 + ε, 10 to 10,000 points.",
    covers=("figure 1",),
    cost={"smoke": "2 s", "small": "8 min", "paper": "5 h"},
)
