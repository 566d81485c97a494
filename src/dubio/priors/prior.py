"""What all priors on weights have in common."""

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
    """A density p(w − mean), the same for all weights of a layer up to its mean.

    A prior is asked for the divergence KL(q‖p) of q = N(μ, σ²), and for its slopes, of many
    weights at a time. It sees the offset μ − mean, and where there is no closed form the standard
    normal noise ε of a draw: then ``log q(w) − log p(w)`` at w = μ + σε is the estimate.

    Attributes:
        mean: One number for all weights, or a tensor for each by the name of the weight.
        exact: Whether the divergence is in closed form, and needs no noise.
    """

    mean: Mean
    exact: ClassVar[bool]

    @abstractmethod
    def kl(self, offset: Tensor, deviation: Tensor, noise: Tensor | None) -> Tensor:
        """The divergence, or its estimate, in nats, summed over weights: a number."""

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
        """Add its derivatives by μ and by σ of each weight, times a factor, to these tensors."""


def positive(name: str, value: float) -> None:
    """Complain about a scale that is none; a tensor would not be learned."""
    if not (isinstance(value, Real) and 0 < value < math.inf):
        raise ValueError(f"{name}: expected a positive number, got {value!r}.")


def finite(mean: Mean) -> None:
    """Complain about a mean that is none."""
    if isinstance(mean, Mapping):
        fine = all(isinstance(each, Tensor) for each in mean.values())
    else:
        fine = isinstance(mean, Real) and math.isfinite(mean)
    if not fine:
        raise ValueError(
            f"mean: expected a number, or a tensor for each weight by its name, got {mean!r}."
        )


def shown(mean: Mean) -> str:
    """A mean as the last argument in a representation, if it is not zero."""
    if isinstance(mean, Mapping):
        return ", mean=…"
    return f", mean={mean:g}" if mean else ""


def log(value: float | Tensor) -> float | Tensor:
    """The logarithm of a number, or of a tensor that stands for those of many networks."""
    return value.log() if isinstance(value, Tensor) else math.log(value)


def sum_of_logs(values: Tensor) -> Tensor:
    """Σ log v, with one logarithm for the product of four numbers where it cannot overflow."""
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
    """Σ v², summed pairwise: `torch.dot` loses nats by the hundred on millions of weights."""
    return (values * values).sum()
