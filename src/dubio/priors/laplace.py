"""The Laplace prior."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

from torch import Tensor

from dubio.priors.prior import Mean, Prior, finite, log, positive, shown, sum_of_logs


@final
@dataclass(frozen=True, repr=False)
class Laplace(Prior):
    """The prior exp(−|w − mean|/scale)/(2·scale) for every weight.

    The divergence of a Gaussian from it is in closed form. With δ = μ − mean, |w − mean| is folded
    normal, E|w − mean| = σ√(2/π)·exp(−δ²/2σ²) + δ·erf(δ/(σ√2)), and so

        KL = log(2b/(σ√(2πe))) + E|w − mean|/b.

    Args:
        scale: The scale, b; the variance is 2b².
        mean: One number for all weights, or a tensor for each by the name of the weight.
    """

    scale: float
    mean: Mean = field(default=0.0, compare=False)
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        finite(self.mean)

    def kl(self, offset: Tensor, deviation: Tensor, noise: Tensor | None) -> Tensor:
        """Return Σ log(2b) − log(σ√(2πe)) + E|w − mean|/b."""
        bell, erf = _folded(offset, deviation)
        distance = (deviation * bell + offset * erf).sum()  # not by dot: see squares
        constant = offset.numel() * (log(2 * self.scale) - 0.5 * math.log(2 * math.pi * math.e))
        return distance / self.scale - sum_of_logs(deviation) + constant

    def add_slopes(
        self,
        of_mean: Tensor,
        of_deviation: Tensor,
        offset: Tensor,
        deviation: Tensor,
        noise: Tensor | None,
        factor: float,
    ) -> None:
        """Add erf(δ/(σ√2))/b and √(2/π)·exp(−δ²/2σ²)/b − 1/σ."""
        bell, erf = _folded(offset, deviation)
        of_mean.add_(erf, alpha=factor / self.scale)
        of_deviation.add_(bell, alpha=factor / self.scale)
        of_deviation.sub_(deviation.reciprocal(), alpha=factor)

    def __repr__(self) -> str:
        return f"Laplace({self.scale:g}{shown(self.mean)})"


def _folded(offset: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Return √(2/π)·exp(−δ²/2σ²) and erf(δ/(σ√2))."""
    ratio = (offset / deviation) * math.sqrt(0.5)
    bell = (-ratio.square()).exp() * math.sqrt(2 / math.pi)
    return bell, ratio.erf()
