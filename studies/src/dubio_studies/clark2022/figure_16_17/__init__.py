"""Clark et al. 2022, figures 16 and 17: trained weights, by method and prior."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Distributions of trained weights",
    about="Histograms by method and by prior.",
    covers=("figure 16", "figure 17"),
    cost={"smoke": "5 s", "small": "10 min", "paper": "14 h"},
    data=("mnist",),
)
