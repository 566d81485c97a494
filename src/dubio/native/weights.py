"""Gaussian weights by the kernels, as `kernels/weights.h` describes them; without any graph.

All tensors are such that the kernels can read them: see `readable`.
"""

from ctypes import c_double
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from dubio.native.library import LOADED
from dubio.native.stream import Stream

SAMPLE, CHANGE, SQUARE = range(3)  # what is made of μ, ρ and ε: w = μ + σε, the change σε, or σ²


@final
class GaussianPrior(NamedTuple):
    """N(mean, deviation²) for every weight.

    Attributes:
        deviation: The standard deviation; zero for no prior at all.
        mean: The mean of all weights.
        means: That of each, in the row of ρ, if they differ.
    """

    deviation: float = 0.0
    mean: float = 0.0
    means: Tensor | None = None


NO_PRIOR = GaussianPrior()


@final
class GaussianWeights(NamedTuple):
    """A tensor of weights: where its parameters are, and its noise.

    Attributes:
        mean: μ.
        rho: ρ of this tensor and others, in one row.
        at: Where in that row it begins.
        start: Which entry of the noise is its first.
    """

    mean: Tensor
    rho: Tensor
    at: int
    start: int


def readable(x: Tensor) -> bool:
    """Return whether the kernels can read a tensor or parameter as it is."""
    return (
        LOADED is not None
        and x.is_cpu
        and x.dtype == torch.float32
        and type(x) in (Tensor, nn.Parameter)
        and x.is_contiguous()
    )


def sample(
    kind: int, stream: Stream, of: GaussianWeights, prior: GaussianPrior, out: Tensor | None
) -> float:
    """Fill ``out`` if it is there; the divergence from the prior if there is one."""
    assert LOADED is not None
    divergence = c_double()
    LOADED.dubio_sample(
        kind, stream.key, stream.first, of.start, of.mean.numel(), of.mean.data_ptr(),
        _at(of.rho, of.at), _at(prior.means, of.at), prior.mean,
        prior.deviation, _at(out), divergence, torch.get_num_threads(),
    )  # fmt: skip
    return divergence.value


def write_slopes(
    kind: int,
    stream: Stream,
    of: GaussianWeights,
    prior: GaussianPrior,
    factor: float,
    gradients: tuple[Tensor | None, Tensor | None],
    of_mean: Tensor | None,
    of_rho: Tensor,
) -> None:
    """Write the gradients of μ and ρ.

    Args:
        kind: What was made of them.
        stream: The noise, of one draw.
        of: The weights.
        prior: The prior.
        factor: The gradient of the divergence.
        gradients: That of what was made, and of μ itself, each if there is one.
        of_mean: Where that of μ goes, if it is wanted.
        of_rho: Where that of ρ goes, a row as long as ρ.
    """
    assert LOADED is not None
    LOADED.dubio_sample_backward(
        kind, stream.key, stream.first, of.start, of.mean.numel(), of.mean.data_ptr(),
        _at(of.rho, of.at), _at(prior.means, of.at), prior.mean, prior.deviation, factor,
        *map(_at, gradients), _at(of_mean), _at(of_rho, of.at), torch.get_num_threads(),
    )  # fmt: skip


def spread(stream: Stream, start: int, mean: Tensor, deviation: Tensor) -> Tensor:  # (S, …)
    """Return μ + σε of some draws, for entries ``start`` and on of the noise.

    The deviations are in a row, with those of all entries of the noise.
    """
    assert LOADED is not None
    made = torch.empty((stream.draws, *mean.shape), dtype=torch.float32, device="cpu")
    LOADED.dubio_spread(
        stream.key, stream.first, stream.draws, start, mean.numel(), mean.data_ptr(),
        _at(deviation, start), made.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return made


def local(stream: Stream, mean: Tensor, variance: Tensor, slope: Tensor | None = None) -> Tensor:
    """Mean + √variance·ε, of one draw; its derivative by the variance is written into ``slope``."""
    made = torch.empty_like(mean)
    _local(stream, mean, variance, made, slope)
    return made


def local_slope(stream: Stream, variance: Tensor) -> Tensor:
    """Return ε/(2√variance), the derivative of √variance·ε by the variance; zero without one."""
    made = torch.empty_like(variance)
    _local(stream, None, variance, None, made)
    return made


def _local(
    stream: Stream, mean: Tensor | None, variance: Tensor, out: Tensor | None, slope: Tensor | None
) -> None:
    assert LOADED is not None
    LOADED.dubio_local(
        stream.key, stream.first, variance.numel(), _at(mean), variance.data_ptr(), _at(out),
        _at(slope), torch.get_num_threads(),
    )  # fmt: skip


def _at(tensor: Tensor | None, entry: int = 0) -> int | None:
    """Return the address of an entry."""
    return None if tensor is None else tensor.data_ptr() + 4 * entry
