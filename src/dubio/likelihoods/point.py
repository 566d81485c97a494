"""No likelihood: function values as they are."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.likelihoods.likelihood import Likelihood
from dubio.likelihoods.quantiles import empirical_quantile


@final
@dataclass(frozen=True)
class Point(Likelihood):
    """No likelihood: the outputs are function values, and only their spread is known."""

    noisy = False
    rowwise = True
    advice = (
        "pass likelihood= to say how outputs give targets: Gaussian(noise_precision), "
        "HeteroscedasticGaussian(), Categorical() or Bernoulli()"
    )

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the outputs."""
        return self._read(outputs)

    def variance(self, outputs: Tensor) -> Tensor:
        """Raise an error: not defined without a likelihood."""
        raise self.undefined("aleatoric variance")

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Raise an error: not defined without a likelihood."""
        raise self.undefined("log_prob")

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the outputs."""
        return self._read(outputs)

    def rescaled(self, scale: float | Tensor) -> "Point":
        """Return the likelihood itself: there is no noise."""
        return self

    def with_mean(self, outputs: Tensor, mean: Tensor, scale: float) -> Tensor:
        """Return the mean."""
        return mean

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """Return the quantile of the function values over draws."""
        return empirical_quantile(self._read(outputs), q)
