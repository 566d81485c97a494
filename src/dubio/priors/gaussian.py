"""The Gaussian prior."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self, final

import torch
from torch import Tensor, nn

from dubio.noise.stochastic import Stochastic
from dubio.priors.prior import Mean, Prior, finite, log, positive, shown, sum_of_logs


@final
@dataclass(frozen=True, repr=False)
class Gaussian(Prior):
    """The prior N(mean, sigma²) for every weight.

    The divergence is in closed form: log(s/σ) + (σ² + (μ − m)²)/(2s²) − ½.

    Args:
        sigma: The standard deviation, s.
        mean: One number for all weights, or a tensor for each by the name of the weight.
    """

    sigma: float
    mean: Mean = field(default=0.0, compare=False)
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        finite(self.mean)

    @classmethod
    def around(cls, module: nn.Module, sigma: float) -> Self:
        """Return a prior centred on the current weights of a layer, for example from another task.

        For a stochastic layer such as `dubio.Bayesian` it is centred on the means.
        """
        if isinstance(module, Stochastic):
            module = module.get_submodule("layer")
        means: Mapping[str, Tensor] = {
            name: weight.detach().clone() for name, weight in module.named_parameters()
        }
        return cls(sigma, mean=means)

    def kl(self, offset: Tensor, deviation: Tensor, noise: Tensor | None) -> Tensor:
        """Return Σ log(s/σ) + (σ² + (μ − m)²)/(2s²) − ½."""
        constant = offset.numel() * (log(self.sigma) - 0.5)
        second_moments = torch.addcmul(deviation * deviation, offset, offset).sum()
        return second_moments * (0.5 / self.sigma**2) - (sum_of_logs(deviation) - constant)

    def add_slopes(
        self,
        of_mean: Tensor,
        of_deviation: Tensor,
        offset: Tensor,
        deviation: Tensor,
        noise: Tensor | None,
        factor: float,
    ) -> None:
        """Add (μ − m)/s² and σ/s² − 1/σ."""
        precision = factor * self.sigma**-2
        of_mean.add_(offset, alpha=precision)
        of_deviation.add_(deviation, alpha=precision).sub_(deviation.reciprocal(), alpha=factor)

    def __repr__(self) -> str:
        return f"Gaussian({self.sigma:g}{shown(self.mean)})"
