"""Masks: the distributions of multiplicative noise."""

from dubio.masks.bernoulli import Bernoulli
from dubio.masks.concrete import Concrete
from dubio.masks.gaussian import Gaussian, LearnableGaussian
from dubio.masks.learnable import LearnableBernoulli
from dubio.masks.mask import Mask

__all__ = ["Bernoulli", "Concrete", "Gaussian", "LearnableBernoulli", "LearnableGaussian", "Mask"]
