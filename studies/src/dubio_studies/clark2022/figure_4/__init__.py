"""Clark et al. 2022, figure 4: an adversarial digit."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="An adversarial digit",
    about="One MNIST image, the sign of its gradient and the perturbed images.",
    covers=("figure 4",),
    cost={"smoke": "2 s", "small": "10 s", "paper": "10 s"},
    data=("mnist",),
)
