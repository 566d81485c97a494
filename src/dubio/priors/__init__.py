"""Priors on weights."""

from dubio.priors.gaussian import Gaussian
from dubio.priors.laplace import Laplace
from dubio.priors.prior import Prior
from dubio.priors.scale_mixture import ScaleMixture

__all__ = ["Gaussian", "Laplace", "Prior", "ScaleMixture"]
