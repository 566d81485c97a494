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
        """The outputs."""
        return self._read(outputs)

    def variance(self, outputs: Tensor) -> Tensor:
        """Not defined."""
        raise self.undefined("aleatoric variance")

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Not defined."""
        raise self.undefined("log_prob")

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The outputs."""
        return self._read(outputs)

    def rescaled(self, scale: float | Tensor) -> "Point":
        """Itself: there is no noise."""
        return self

    def with_mean(self, outputs: Tensor, mean: Tensor, scale: float) -> Tensor:
        """The mean."""
        return mean

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """The empirical quantile over draws of the function values."""
        return empirical_quantile(self._read(outputs), q)
