"""Gal & Ghahramani 2016, figure 2: CO2 extrapolated by dropout networks and a Gaussian process."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="CO2 extrapolated",
    about="Standard dropout, a Gaussian process, MC dropout with ReLU and with TanH; 1000 draws.",
    covers=("figure 2",),
    cost={"smoke": "10 s", "small": "20 min", "paper": "2 days"},
    data=("co2",),
)
