"""The regression of Clark et al. 2022: figures 1 and 7 to 15, tables 1 and 2."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Regression on a curve",
    about=(
        "Bayes by Backprop with different noise levels, priors and local reparameterisation, "
        "compared with ensembles."
    ),
    covers=("figure 1", *(f"figure {n}" for n in range(7, 16)), "table 1", "table 2"),
    cost={"smoke": "5 s", "small": "4 min", "paper": "2 h"},
)
