"""Clark et al. 2022, figure 18: test error on MNIST while networks learn."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Learning curves on MNIST",
    about="Test error by epoch: plain, dropout, Bayes by Backprop.",
    covers=("figure 18",),
    cost={"smoke": "5 s", "small": "6 min", "paper": "8 h"},
    data=("mnist",),
)
