"""Solar irradiance, Gal & Ghahramani 2016, appendix D.1: five gaps interpolated."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Solar irradiance interpolated",
    about="Five held-out intervals of the reconstructed solar irradiance (appendix D.1).",
    covers=("appendix D.1",),
    cost={"smoke": "10 s", "small": "5 min", "paper": "2 days"},
    data=("solar",),
)
