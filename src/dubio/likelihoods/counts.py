"""Counts without an upper bound: Poisson, and negative binomial for more spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.likelihoods.incomplete_beta import incomplete_beta
from dubio.likelihoods.numeric import Counts, Missing, split
from dubio.noise.float64 import in_float64

_PARTS = ("log means", "log sizes")
_LARGE_RATE = 64.0  # from which four terms of the entropy's expansion are exact to 1e-8


@final
@dataclass(frozen=True)
class Poisson(Counts):
    """Poisson counts; the outputs are log rates.

    Attributes:
        missing: What NaN among targets means: "error", or "ignore" for missing targets.
    """

    rowwise = True
    missing: Missing = "error"

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the rate, exp(f)."""
        return self._read(outputs).exp()

    def variance(self, outputs: Tensor) -> Tensor:
        """Return the rate as well."""
        return self.mean(outputs)

    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log probability, y f - exp(f) - log y!."""
        log_rate = self._read(outputs)
        return y * log_rate - log_rate.exp() - (y + 1).lgamma()

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the regularised upper incomplete gamma function Q(floor(y) + 1, rate)."""
        rate, at_most = self.mean(outputs), y.floor()
        found: Tensor = torch.special.gammaincc(at_most.clamp(min=0) + 1, rate)
        return found.where(at_most >= 0, 0)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Return the entropy of every element; for large rates its expansion.

        From a rate of 64: 1/2 log 2 pi e r - 1/(12 r) - 1/(24 r^2) - 19/(360 r^3)
        (Evans and Boersma 1988).
        """
        rate = in_float64(self.mean(outputs))
        large = rate.clamp(min=_LARGE_RATE)
        expansion = (
            0.5 * (2 * math.pi * math.e * large).log()
            - 1 / (12 * large)
            - 1 / (24 * large**2)
            - 19 / (360 * large**3)
        )
        small = rate.clamp(max=_LARGE_RATE)
        total = torch.zeros_like(rate)
        for k in range(200):  # at a rate of 64 the rest is less than 1e-38
            log_p = torch.special.xlogy(torch.tensor(float(k)), small) - small - math.lgamma(k + 1)
            total = total - log_p.exp() * log_p.where(log_p > -math.inf, 0)
        return torch.where(rate < _LARGE_RATE, total, expansion).to(self._read(outputs))

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample a count for each draw, row and element: `(S, B, *E)`."""
        return torch.poisson(self.mean(outputs), generator=generator)


@final
@dataclass(frozen=True)
class NegativeBinomial(Counts):
    """Overdispersed counts: Poisson with a rate of Gamma(r, r/m).

    The last dimension of the outputs, 2D wide, holds D log means m and then D log sizes r. The
    variance is m + m²/r; for large r it is Poisson.

    Attributes:
        missing: What NaN among targets means: "error", or "ignore" for missing targets.
    """

    rowwise = True
    missing: Missing = "error"

    def check(self, outputs: Tensor) -> None:
        """Check also that the last dimension has two halves."""
        super().check(outputs)
        split(outputs, _PARTS)

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the exponential of the first half."""
        return self._logs(outputs)[0].exp()

    def variance(self, outputs: Tensor) -> Tensor:
        """Return m + m²/r."""
        log_mean, log_size = self._logs(outputs)
        return log_mean.exp() + (2 * log_mean - log_size).exp()

    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return log Γ(y + r)/(Γ(r) y!) + r log r/(r + m) + y log m/(r + m)."""
        log_mean, log_size = self._logs(outputs)
        log_sum, size = torch.logaddexp(log_mean, log_size), log_size.exp()
        orders = (y + size).lgamma() - size.lgamma() - (y + 1).lgamma()
        return orders + size * (log_size - log_sum) + y * (log_mean - log_sum)

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the regularised incomplete beta function I_p(r, floor(y) + 1), p = r/(r + m)."""
        log_mean, log_size = self._logs(outputs)
        success = torch.sigmoid(log_size - log_mean)
        failure = torch.sigmoid(log_mean - log_size)
        at_most = y.floor()
        found = incomplete_beta(log_size.exp(), at_most.clamp(min=0) + 1, success, failure)
        return found.where(at_most >= 0, 0)

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample a count for each draw, row and element: `(S, B, *E)`."""
        log_mean, log_size = self._logs(outputs)
        gamma = torch._standard_gamma(log_size.exp(), generator=generator)
        return torch.poisson(gamma * (log_mean - log_size).exp(), generator=generator)

    def _logs(self, outputs: Tensor) -> tuple[Tensor, ...]:
        return split(self._read(outputs), _PARTS)
