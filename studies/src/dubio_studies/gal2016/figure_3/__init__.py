"""Gal & Ghahramani 2016, figure 3: CO2 extrapolated by MC dropout with ten draws."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="CO2 extrapolated with ten draws",
    about="MC dropout with ReLU from ten draws instead of a thousand.",
    covers=("figure 3",),
    cost={"smoke": "5 s", "small": "2 min", "paper": "a day"},
    data=("co2",),
)
