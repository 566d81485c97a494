"""Clark et al. 2022, figures 20 and 21: how many weights a Bayesian network can do without."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Pruning by signal-to-noise",
    about=(
        "Test error against the pruned share, the kept share of each layer, and the "
        "signal-to-noise ratios."
    ),
    covers=("figure 20", "figure 21"),
    cost={"smoke": "3 s", "small": "15 min", "paper": "1 d"},
    data=("mnist",),
)
