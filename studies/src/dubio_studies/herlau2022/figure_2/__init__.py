"""Herlau et al. 2022, figure 2: opinions in Amazon reviews, with and without dropout."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Amazon reviews",
    about="Test error against λ0 with and without dropout in four product categories.",
    covers=("figure 2",),
    cost={"smoke": "5 s", "small": "1 min", "paper": "8 min"},
    data=tuple(
        f"{data}-{category}"
        for data in ("amazon", "amazon-selected")
        for category in ("books", "dvd", "electronics", "kitchen")
    ),
)
