"""Gal et al. 2017, section 4.3: rates against data and width, and the prior, on MNIST."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Concrete dropout on MNIST",
    about="Accuracy; converged rates against data and width; log-likelihood against length scale.",
    covers=("figure 5", "figure 6", "figure 11"),
    cost={"smoke": "10 s", "small": "25 min", "paper": "2 days"},
    data=("mnist",),
)
