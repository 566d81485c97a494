"""The scale mixture of two Gaussians."""

from dataclasses import dataclass, field
from numbers import Real
from typing import ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.priors.prior import Mean, Prior, finite, log, positive, shown, squares, sum_of_logs


@final
@dataclass(frozen=True, repr=False)
class ScaleMixture(Prior):
    """The prior π·N(mean, σ1²) + (1 − π)·N(mean, σ2²) for every weight.

    Clark et al. 2022, section 2.4.

    There is no closed form. The divergence is estimated at the weights w = μ + σε of a draw,

        log q(w) − log p(w) = −½ε² − log σ − log p(w) + const,

    all in log space, where a narrow component cannot underflow.

    Args:
        pi: The share of the first component, π.
        sigma1: The standard deviation of the first component, as a rule the wide one.
        sigma2: The standard deviation of the second.
        mean: One number for all weights, or a tensor for each by the name of the weight.
    """

    pi: float
    sigma1: float
    sigma2: float
    mean: Mean = field(default=0.0, compare=False)
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (isinstance(self.pi, Real) and 0 < self.pi < 1):
            raise ValueError(
                f"pi: expected a share between 0 and 1, got {self.pi!r}; with one component use "
                f"Gaussian(sigma)"
            )
        positive("sigma1", self.sigma1)
        positive("sigma2", self.sigma2)
        finite(self.mean)

    def kl(self, offset: Tensor, deviation: Tensor, noise: Tensor | None) -> Tensor:
        """Return Σ log q(w) − log p(w)."""
        assert noise is not None
        w = torch.addcmul(offset, deviation, noise)
        # log p = log (share of the wide one)·N(w; wide) + softplus(log odds of the narrow one):
        # large numbers do not cancel; the constants of log q and log p do
        (share, wide), _ = self._components()
        log_p = F.softplus(self._log_odds(w)).sum() - squares(w) / (2 * wide**2)
        constant = offset.numel() * (log(wide) - log(share))
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
        """Add g = w·E[1/σ_component² | w] for μ, and ε·g − 1/σ for σ."""
        assert noise is not None
        w = torch.addcmul(offset, deviation, noise)
        (_, wide), (_, narrow) = self._components()
        precision = self._log_odds(w).sigmoid_().mul_(narrow**-2 - wide**-2).add_(wide**-2)
        of_w = w.mul_(precision)
        of_mean.add_(of_w, alpha=factor)
        of_deviation.addcmul_(of_w, noise, value=factor)
        of_deviation.sub_(deviation.reciprocal(), alpha=factor)

    def _components(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Share and standard deviation of the wide component, and of the narrow one."""
        first, second = (self.pi, self.sigma1), (1 - self.pi, self.sigma2)
        ordered = self.sigma1 >= self.sigma2
        if isinstance(ordered, Tensor):  # of many networks, each with an order of its own
            wide, narrow = (
                tuple(torch.where(ordered, a, b) for a, b in zip(one, other, strict=True))
                for one, other in ((first, second), (second, first))
            )
            return wide, narrow
        return (first, second) if ordered else (second, first)

    def _log_odds(self, w: Tensor) -> Tensor:
        """Log odds that a weight of this value comes from the narrow component."""
        (of_wide, wide), (of_narrow, narrow) = self._components()
        at_zero = log(of_narrow / of_wide) + log(wide / narrow)
        return (w * w).mul_(0.5 * (wide**-2 - narrow**-2)).add_(at_zero)

    def __repr__(self) -> str:
        return f"ScaleMixture({self.pi:g}, {self.sigma1:g}, {self.sigma2:g}{shown(self.mean)})"
