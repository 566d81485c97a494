"""Real targets with noise of a given form, whose location and scale are outputs."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from dubio.likelihoods.incomplete_beta import incomplete_beta
from dubio.likelihoods.numeric import Missing, Numeric, split

_PARTS = ("locations", "log scales")


class LocationScale(Numeric):
    """The last dimension of the outputs, 2D wide, holds D locations and then D log scales.

    y = location + scale·ε, with ε of a symmetric distribution.
    """

    @abstractmethod
    def _log_density(self, z: Tensor) -> Tensor:
        """Return that of ε at z."""

    @abstractmethod
    def _cdf(self, z: Tensor) -> Tensor:
        """Return that of ε at z."""

    @abstractmethod
    def _variance(self) -> float:
        """Return that of ε."""

    @abstractmethod
    def _entropy(self) -> float:
        """Return that of ε, in nats."""

    def check(self, outputs: Tensor) -> None:
        """Check also that the last dimension has two halves."""
        super().check(outputs)
        split(outputs, _PARTS)

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the locations."""
        return split(self._read(outputs), _PARTS)[0]

    def variance(self, outputs: Tensor) -> Tensor:
        """Return the squared scales times the variance of ε."""
        return self._variance() * (2 * self._log_scale(outputs)).exp()

    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log density of ε at z = (y - location) / scale, less the log scale."""
        log_scale = self._log_scale(outputs)
        return self._log_density((y - self.mean(outputs)) / log_scale.exp()) - log_scale

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the cdf of ε at z = (y - location) / scale."""
        return self._cdf((y - self.mean(outputs)) / self._log_scale(outputs).exp())

    def entropy(self, outputs: Tensor) -> Tensor:
        """Return the entropy of ε plus the log scale, for every element."""
        return self._entropy() + self._log_scale(outputs)

    def with_mean(self, outputs: Tensor, mean: Tensor, scale: float) -> Tensor:
        """Return the mean beside the rescaled log scales."""
        log_scale = self._log_scale(outputs).to(mean.dtype) + math.log(scale)
        return torch.cat([mean, log_scale], dim=-1)

    def rescaled(self, scale: float | Tensor) -> Self:
        """Return the likelihood itself: the noise is in the outputs."""
        return self

    def _log_scale(self, outputs: Tensor) -> Tensor:
        return split(self._read(outputs), _PARTS)[1]


@final
@dataclass(frozen=True)
class Laplace(LocationScale):
    """Laplace noise, density exp(-|z|)/2: its maximum likelihood minimises the absolute error.

    Attributes:
        missing: What NaN among targets means: "error", or "ignore" for missing targets.
    """

    rowwise = True
    missing: Missing = "error"

    def _log_density(self, z: Tensor) -> Tensor:
        return -z.abs() - math.log(2)

    def _cdf(self, z: Tensor) -> Tensor:
        tail = 0.5 * (-z.abs()).exp()
        return torch.where(z < 0, tail, 1 - tail)

    def _variance(self) -> float:
        return 2.0

    def _entropy(self) -> float:
        return 1 + math.log(2)

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample Laplace noise as the difference of two exponential variables."""
        mean = self.mean(outputs)
        first, second = (torch.empty_like(mean).exponential_(generator=generator) for _ in range(2))
        return mean + (first - second) * self._log_scale(outputs).exp()


@final
@dataclass(frozen=True)
class StudentT(LocationScale):
    """Heavy-tailed noise: outliers pull less than with a Gaussian.

    Attributes:
        degrees: Degrees of freedom ν > 1; smaller means heavier tails. The variance is infinite for
            ν ≤ 2.
        missing: What NaN among targets means: "error", or "ignore" for missing targets.
    """

    rowwise = True
    degrees: float = 4.0
    missing: Missing = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.degrees, float | int) and 1 < self.degrees < math.inf):
            raise ValueError(
                f"degrees: expected a finite number > 1, so that there is a mean, got "
                f"{self.degrees!r}; 4 is common, and Gaussian noise is the limit of many"
            )

    def _log_density(self, z: Tensor) -> Tensor:
        nu = self.degrees
        norm = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(math.pi * nu)
        return norm - (nu + 1) / 2 * torch.log1p(z.square() / nu)

    def _cdf(self, z: Tensor) -> Tensor:
        """Return I_x(ν/2, 1/2)/2 with x = ν/(ν + z²) is the probability beyond |z|."""
        nu = self.degrees
        squares = z.square()
        share = squares / (nu + squares)
        share = share.where(squares.isfinite(), 1)
        half = torch.full_like(z, nu / 2), torch.full_like(z, 0.5)
        tail = 0.5 * incomplete_beta(*half, 1 - share, share)
        return torch.where(z < 0, tail, 1 - tail)

    def _variance(self) -> float:
        return self.degrees / (self.degrees - 2) if self.degrees > 2 else math.inf

    def _entropy(self) -> float:
        """Return (ν + 1)/2 (ψ((ν + 1)/2) − ψ(ν/2)) + log √ν B(ν/2, 1/2)."""
        nu = self.degrees
        halves = torch.tensor([(nu + 1) / 2, nu / 2], dtype=torch.float64)
        slope = -float(torch.digamma(halves).diff())
        log_beta = math.lgamma(nu / 2) + math.lgamma(0.5) - math.lgamma((nu + 1) / 2)
        return (nu + 1) / 2 * slope + 0.5 * math.log(nu) + log_beta

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample √(ν(u^(−2/ν) − 1))·cos 2πv for uniform u and v (Bailey 1994)."""
        mean = self.mean(outputs)
        u, v = (
            torch.rand(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
            for _ in range(2)
        )
        nu = self.degrees
        radius = (nu * torch.expm1(-2 / nu * torch.log1p(-u))).sqrt()  # 1 - u is never 0
        return mean + radius * (2 * math.pi * v).cos() * self._log_scale(outputs).exp()
