"""Student's t as a prior."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from dubio.priors.prior import Mean, Prior, finite, log, positive, shown, squares, sum_of_logs


@final
@dataclass(frozen=True, repr=False)
class StudentT(Prior):
    """Every weight is mean + scale·t with t of Student's distribution beforehand: heavy tails.

    There is no closed form. The divergence is estimated at the weights w = μ + σε of a draw.

    Args:
        degrees: The degrees of freedom, ν.
        scale: The scale, s.
        mean: One number for all weights, or a tensor for each by the name of the weight.
    """

    degrees: float
    scale: float
    mean: Mean = field(default=0.0, compare=False)
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive("degrees", self.degrees)
        positive("scale", self.scale)
        finite(self.mean)

    def kl(self, offset: Tensor, deviation: Tensor, noise: Tensor | None) -> Tensor:
        """Σ log q(w) − log p(w), log p = const − ½(ν + 1)·log(1 + w²/(νs²))."""
        assert noise is not None
        w = torch.addcmul(offset, deviation, noise)
        nu = self.degrees
        peak = _lgamma((nu + 1) / 2) - _lgamma(nu / 2) - 0.5 * log(nu * math.pi) - log(self.scale)
        log_p = -0.5 * (nu + 1) * (w.square() / (nu * self.scale**2)).log1p().sum()
        constant = -offset.numel() * (0.5 * math.log(2 * math.pi) + peak)
        return constant - 0.5 * squares(noise) - sum_of_logs(deviation) - log_p

    def add_slopes(
        self,
        of_mean: Tensor,
        of_deviation: Tensor,
        offset: Tensor,
        deviation: Tensor,
        noise: Tensor | None,
        factor: float,
    ) -> None:
        """−d log p/dw = (ν + 1)·w/(νs² + w²), and ε times that − 1/σ."""
        assert noise is not None
        w = torch.addcmul(offset, deviation, noise)
        of_w = (self.degrees + 1) * w / (self.degrees * self.scale**2 + w.square())
        of_mean.add_(of_w, alpha=factor)
        of_deviation.addcmul_(of_w, noise, value=factor)
        of_deviation.sub_(deviation.reciprocal(), alpha=factor)

    def __repr__(self) -> str:
        return f"StudentT({self.degrees:g}, {self.scale:g}{shown(self.mean)})"


def _lgamma(value: float | Tensor) -> float | Tensor:
    return value.lgamma() if isinstance(value, Tensor) else math.lgamma(value)
