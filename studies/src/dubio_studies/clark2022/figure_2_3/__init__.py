"""Clark et al. 2022, figures 2 and 3: densities of the priors."""

from dubio_studies.framework.study import Card

CARD = Card(
    title="Priors",
    about="Densities of the scale mixtures, and of Gaussian, mixture and Laplace side by side.",
    covers=("figure 2", "figure 3"),
    cost={"smoke": "1 s", "small": "1 s", "paper": "1 s"},
)
