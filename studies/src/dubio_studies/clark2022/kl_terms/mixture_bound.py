"""The scale mixture with a KL that needs no draws."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from dubio.priors import Prior
from dubio.priors.prior import Mean


@final
@dataclass(frozen=True)
class BoundedMixture(Prior):
    """π·N(0, σ1²) + (1 − π)·N(0, σ2²), with a bound in place of the divergence.

    By Hershey & Olsen 2007, eq. 20, for one Gaussian q and components p_k of shares π_k,

        KL(q‖Σ π_k p_k) ≤ −log Σ π_k exp(−KL(q‖p_k)),

    so that an objective with it is still a bound on the evidence, and its gradient for a weight has
    no noise.
    """

    pi: float
    sigma1: float
    sigma2: float
    mean: Mean = field(default=0.0, compare=False)
    exact: ClassVar[bool] = True

    def kl(self, offset: Tensor, deviation: Tensor, noise: Tensor | None) -> Tensor:
        """Σ −log Σ_k π_k exp(−KL_k)."""
        return -torch.logsumexp(self._logs(offset, deviation), 0).sum()

    def add_slopes(
        self,
        of_mean: Tensor,
        of_deviation: Tensor,
        offset: Tensor,
        deviation: Tensor,
        noise: Tensor | None,
        factor: float,
    ) -> None:
        """Those of the components, by their shares in the sum."""
        first, second = self.sigma1**-2, self.sigma2**-2
        logs = self._logs(offset, deviation)
        precision = (logs[1] - logs[0]).sigmoid_().mul_(second - first).add_(first)
        of_mean.addcmul_(offset, precision, value=factor)
        of_deviation.addcmul_(deviation, precision, value=factor)
        of_deviation.sub_(deviation.reciprocal(), alpha=factor)

    def _logs(self, offset: Tensor, deviation: Tensor) -> Tensor:  # (2, W)
        """By component and weight: log π_k − KL(q‖p_k)."""
        half = 0.5 * torch.addcmul(deviation * deviation, offset, offset)
        entropy = deviation.log() + 0.5
        return torch.stack(
            [
                math.log(share / sigma) + entropy - half / sigma**2
                for share, sigma in ((self.pi, self.sigma1), (1 - self.pi, self.sigma2))
            ]
        )
