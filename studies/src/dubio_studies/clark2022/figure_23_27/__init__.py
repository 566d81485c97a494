"""Clark et al. 2022, figures 23 to 25: to eat mushrooms or not."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Mushrooms: a contextual bandit",
    about="Cumulative regret, eating rates and errors of Thompson sampling and ε-greedy agents.",
    covers=tuple(f"figure {n}" for n in range(23, 26)),
    cost={"smoke": "20 s", "small": "30 min", "paper": "2 days"},
    data=("mushroom",),
)
