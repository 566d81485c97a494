"""Bandits: which way of doubting explores best?"""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Bandits: which method explores best?",
    about=(
        "Relative regret of all methods on mushrooms and on the wheel, compared with published "
        "values."
    ),
    covers=("the benchmark of Riquelme et al. 2018",),
    cost={"smoke": "20 s", "small": "45 min", "paper": "5 h"},
    data=("mushroom",),
)
