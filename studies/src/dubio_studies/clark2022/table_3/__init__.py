"""Clark et al. 2022, table 3: how often Bayesian, dropout and plain networks err on MNIST."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Classification error on MNIST",
    about="Bayes by Backprop, plain and dropout networks with 400, 800 and 1200 units.",
    covers=("table 3",),
    cost={"smoke": "5 s", "small": "1 h", "paper": "12 h"},
    data=("mnist",),
)
