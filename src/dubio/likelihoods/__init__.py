"""Likelihoods: the distribution of targets given raw outputs, p(y | x, omega).

A likelihood reads raw outputs with the draws in front, `(S, B, ...)`, in float32 or better, and
returns one value per draw: averaging over draws is the work of `dubio.predictive`, averaging over
examples the work of the objectives. Event dimensions `*E` are those of one target.
"""

from dubio.likelihoods.bernoulli import Bernoulli
from dubio.likelihoods.categorical import Categorical
from dubio.likelihoods.counts import NegativeBinomial, Poisson
from dubio.likelihoods.labels import LabelLikelihood
from dubio.likelihoods.learned import GammaPrior, LearnedGaussian
from dubio.likelihoods.likelihood import Likelihood
from dubio.likelihoods.location_scale import Laplace, StudentT
from dubio.likelihoods.multinomial import Multinomial
from dubio.likelihoods.multivariate import MultivariateGaussian
from dubio.likelihoods.normal import Gaussian, HeteroscedasticGaussian
from dubio.likelihoods.numeric import Numeric
from dubio.likelihoods.point import Point

__all__ = [
    "Bernoulli",
    "Categorical",
    "GammaPrior",
    "Gaussian",
    "HeteroscedasticGaussian",
    "LabelLikelihood",
    "Laplace",
    "LearnedGaussian",
    "Likelihood",
    "Multinomial",
    "MultivariateGaussian",
    "NegativeBinomial",
    "Numeric",
    "Point",
    "Poisson",
    "StudentT",
]
