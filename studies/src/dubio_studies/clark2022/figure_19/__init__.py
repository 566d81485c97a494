"""Clark et al. 2022, figure 19: whether what networks are sure of comes true."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Calibration on MNIST",
    about=(
        "Reliability, ECE and proper scores of plain, dropout and Bayesian networks, with two "
        "losses."
    ),
    covers=("figure 19",),
    cost={"smoke": "5 s", "small": "15 min", "paper": "1 d"},
    data=("mnist",),
)
