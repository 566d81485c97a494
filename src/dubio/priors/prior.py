"""The base class of all priors on weights."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor

from dubio.noise.vectorised import is_vectorised

Mean = float | Mapping[str, Tensor]


class Prior(ABC):
    """A prior density p(w − mean) of the weights, the same for all weights up to the mean.

    It computes the divergence KL(q‖p) of q = N(μ, σ²) and its derivatives, for many weights at
    once. It gets the offset μ − mean and, where there is no closed form, standard normal noise ε:
    the estimate is then ``log q(w) − log p(w)`` at w = μ + σε.

    Attributes:
        mean: One number for all weights, or a tensor for each by the name of the weight.
        exact: Whether the divergence is in closed form and needs no noise.
    """

    mean: Mean
    exact: ClassVar[bool]

    @abstractmethod
    def kl(self, offset: Tensor, deviation: Tensor, noise: Tensor | None) -> Tensor:
        """Return the divergence or its estimate, in nats, summed over weights."""

    @abstractmethod
    def add_slopes(
        self,
        of_mean: Tensor,
        of_deviation: Tensor,
        offset: Tensor,
        deviation: Tensor,
        noise: Tensor | None,
        factor: float,
    ) -> None:
        """Add the derivatives by μ and σ of each weight, times a factor, to two tensors."""


def positive(name: str, value: float) -> None:
    """Raise an error unless this is a positive number; a tensor would not be learned."""
    if not (isinstance(value, Real) and 0 < value < math.inf):
        raise ValueError(f"{name}: expected a positive number, got {value!r}")


def finite(mean: Mean) -> None:
    """Raise an error unless this is a finite mean."""
    if isinstance(mean, Mapping):
        fine = all(isinstance(each, Tensor) for each in mean.values())
    else:
        fine = isinstance(mean, Real) and math.isfinite(mean)
    if not fine:
        raise ValueError(
            f"mean: expected a number, or a tensor for each weight by its name, got {mean!r}"
        )


def shown(mean: Mean) -> str:
    """Return a mean as the last argument in a representation, if it is not zero."""
    if isinstance(mean, Mapping):
        return ", mean=…"
    return f", mean={mean:g}" if mean else ""


def log(value: float | Tensor) -> float | Tensor:
    """Return the logarithm of a number, or of a tensor with one for each of many networks."""
    return value.log() if isinstance(value, Tensor) else math.log(value)


def sum_of_logs(values: Tensor) -> Tensor:
    """Return Σ log v, taking one logarithm per product of four numbers if it is safe."""
    quarter, left = divmod(values.numel(), 4)
    if quarter < 256 or not values.is_cpu or is_vectorised(values):  # too few to gain by it
        return values.log().sum()
    low, high = torch.aminmax(values)
    if low < 1e-9 or high > 1e9:
        return values.log().sum()
    a, b, c, d = values[: 4 * quarter].view(4, quarter).unbind()
    total: Tensor = (a * b).mul_(c).mul_(d).log_().sum()
    return total + values[4 * quarter :].log().sum() if left else total


def squares(values: Tensor) -> Tensor:
    """Return Σ v², summed pairwise: `torch.dot` is too imprecise for millions of weights."""
    return (values * values).sum()
