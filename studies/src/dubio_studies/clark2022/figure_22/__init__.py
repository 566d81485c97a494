"""Clark et al. 2022, figure 22: networks on images that were changed to deceive."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Adversarial robustness",
    about="Accuracy against the size of an adversarial change, transferred and white-box.",
    covers=("figure 22",),
    cost={"smoke": "5 s", "small": "1 h", "paper": "1 d"},
    data=("mnist",),
)
