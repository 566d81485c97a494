"""Detect networks whose rows never interact nor share a mask."""

from collections.abc import Sequence

from torch import nn

from dubio.layers.bayes import BayesLinear
from dubio.layers.bayesian import Bayesian
from dubio.layers.exact_linear import ExactLinear
from dubio.layers.masked import Masked
from dubio.layers.row_noise import RowNoise
from dubio.masks import Bernoulli, Concrete, Gaussian, LearnableBernoulli, LearnableGaussian

_ROWWISE = {
    nn.Sequential, nn.Identity, nn.Linear, nn.LayerNorm, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU,
    nn.SELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Hardtanh, nn.Hardswish,
    Masked, Bayesian, BayesLinear, ExactLinear, Bernoulli, Concrete, Gaussian, LearnableBernoulli,
    LearnableGaussian,
}  # fmt: skip


def rows_stay_apart(modules: Sequence[nn.Module]) -> bool:
    """Return whether all modules treat each row of a matrix by itself.

    They are torch's and dubio's own; of others nothing is known, nor of hooks, which are to be
    looked for at every call.
    """
    return all(
        (type(module) in _ROWWISE or isinstance(module, RowNoise))
        and (not isinstance(module, nn.LayerNorm) or len(module.normalized_shape) == 1)
        for module in modules
    )
