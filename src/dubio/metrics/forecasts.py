"""Predictive distributions of real targets, from whatever form they are given in.

- A `Predictive` with a Gaussian likelihood is an equal mixture of Gaussians, and is read as one,
  exactly; without a likelihood it is a set of draws.
- `torch.distributions.Normal(mean, std)` of the shape of the targets is one Gaussian; with an axis
  of draws in front, `(S, B, *E)`, an equal mixture over it.
- A tensor `(S, B, *E)` is a set of draws of the target.
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.distributions import Normal

from dubio.likelihoods.quantiles import empirical_quantile, mixture_quantile
from dubio.metrics.reading import check_numbers, check_shape
from dubio.predictive.predictive import Predictive

Forecastable = Predictive | Normal | Tensor


@final
@dataclass(frozen=True)
class Mixture:
    """An equal mixture of Gaussians: mean and standard deviation `(S, B, *E)`.

    `log_prob` is joint over the elements of a row, `(B,)`; the rest is element by element.
    """

    mean: Tensor
    std: Tensor

    def log_prob(self, target: Tensor) -> Tensor:
        """Log 1/S sum_t N(y; f_t, s_t^2), Gal & Ghahramani 2016, eq. 13."""
        logs = Normal(self.mean, self.std, validate_args=False).log_prob(target)
        joint = logs.reshape(*logs.shape[:2], -1).sum(-1)  # (S, B)
        total: Tensor = joint.logsumexp(0)
        return total - math.log(len(joint))

    def cdf(self, target: Tensor) -> Tensor:
        """1/S sum_t Phi((y - f_t) / s_t)."""
        reached: Tensor = Normal(self.mean, self.std, validate_args=False).cdf(target)
        return reached.mean(0)

    def quantile(self, level: float) -> Tensor:
        """By bisection."""
        return mixture_quantile(self.mean, self.std, level)

    def crps(self, target: Tensor, fair: bool) -> Tensor:
        """In closed form (Grimit et al. 2006), in S^2 steps a target.

        1/S sum_t A(y - f_t, s_t) - 1/(2 S^2) sum_tu A(f_t - f_u, sqrt(s_t^2 + s_u^2)), where
        A(m, s) = E|m + s e| for e ~ N(0, 1). One Gaussian alone gives the well-known
        s (z (2 Phi(z) - 1) + 2 phi(z) - 1/sqrt(pi)).
        """
        draws, variance = len(self.mean), self.std.square()
        _check_fair(fair, draws)
        own = _mean_absolute(torch.zeros_like(self.mean), math.sqrt(2) * self.std).sum(0)
        pairs = torch.zeros_like(target)
        for t in range(1, draws):
            spread = (variance[:t] + variance[t]).sqrt()
            pairs += 2 * _mean_absolute(self.mean[:t] - self.mean[t], spread).sum(0)
        error = _mean_absolute(target - self.mean, self.std).mean(0)
        if fair:
            return error - pairs / (2 * draws * (draws - 1))
        return error - (pairs + own) / (2 * draws**2)


@final
@dataclass(frozen=True)
class Draws:
    """Draws of the target, `(S, B, *E)`."""

    values: Tensor

    def log_prob(self, target: Tensor) -> Tensor:
        """Not defined."""
        raise TypeError(
            "prediction: expected a density, got draws of the target, which have none; pass a "
            "Predictive with a Gaussian likelihood, or torch.distributions.Normal(means, std)"
        )

    def cdf(self, target: Tensor) -> Tensor:
        """(rank + 1/2) / (S + 1), where draws equal to the target count half.

        If the target is one more draw of the same distribution, its rank is uniform over 0 … S;
        rank/S would put too much weight on the ends.
        """
        below = (self.values < target).sum(0) + 0.5 * (self.values == target).sum(0)
        return (below + 0.5) / (len(self.values) + 1)

    def quantile(self, level: float) -> Tensor:
        """Interpolated between draws."""
        return empirical_quantile(self.values, level)

    def crps(self, target: Tensor, fair: bool) -> Tensor:
        """1/S sum_t |x_t - y| - 1/(2 S^2) sum_tu |x_t - x_u|, or 1/(2 S (S - 1)) if fair.

        The double sum is 2 sum_i (2 i - S - 1) x_(i) over sorted draws, in S log S steps. An
        infinite target has an infinite score.
        """
        draws = len(self.values)
        _check_fair(fair, draws)
        offset = self.values - target.where(target.isfinite(), 0)
        rank = torch.arange(1 - draws, draws, 2, dtype=offset.dtype, device=offset.device)
        pairs: Tensor = torch.tensordot(rank, offset.sort(0).values, 1)  # half the double sum
        error = (self.values - target).abs().mean(0)
        return error - pairs / (draws * (draws - 1 if fair else draws))


Forecast = Mixture | Draws


def read_forecast(prediction: Forecastable, target: Tensor) -> tuple[Forecast, Tensor]:
    """The distribution in float64, and the targets `(B, *E)`, both checked."""
    _check_kind(prediction)
    if isinstance(prediction, Predictive) and not prediction.likelihood.real:
        raise TypeError(
            f"prediction: expected real targets, got {prediction.likelihood!r}; predict with "
            "likelihood=dubio.likelihoods.Gaussian(noise_precision) or HeteroscedasticGaussian()"
        )
    target = check_numbers(target, "target").double()
    if isinstance(prediction, Predictive):
        likelihood, outputs = prediction.likelihood, prediction.draws.double()
        if not likelihood.noisy:
            return _read_draws(outputs, target), target
        mean, std = likelihood.mean(outputs), likelihood.variance(outputs).sqrt()
        return _read_mixture(mean, std, target), target
    if isinstance(prediction, Normal):
        mean, std = prediction.mean.double(), prediction.stddev.double()
        one = mean.shape == target.shape
        return _read_mixture(*((mean[None], std[None]) if one else (mean, std)), target), target
    return _read_draws(prediction, target), target


def read_mean(prediction: Forecastable, target: Tensor) -> tuple[Tensor, Tensor]:
    """Point predictions and targets, both `(B, *E)`; a tensor is the predictions themselves."""
    _check_kind(prediction)
    target = check_numbers(target, "target").double()
    mean = prediction.mean if isinstance(prediction, Predictive | Normal) else prediction
    mean = check_numbers(mean, "prediction").double()
    if isinstance(prediction, Normal) and mean.shape[1:] == target.shape:
        mean = mean.mean(0)
    check_shape(mean, target.shape, "prediction", "the targets")
    return mean, target


def _check_kind(prediction: Forecastable) -> None:
    if not isinstance(prediction, Predictive | Normal | Tensor):
        raise TypeError(
            f"prediction: expected a Predictive, a torch.distributions.Normal or a tensor, got "
            f"{type(prediction).__name__}; make a tensor with torch.as_tensor. Of a distribution "
            "in closed form, as that of BayesianDropoutRegression, rmse takes the mean and other "
            "scores draws, its sample(1000); lppd is the mean of its own log_prob(y)"
        )


def _read_mixture(mean: Tensor, std: Tensor, target: Tensor) -> Mixture:
    _check_finite(check_numbers(mean, "prediction"))
    check_shape(mean[0], target.shape, "prediction, one draw of it", "the targets")
    if not bool(((std > 0) & std.isfinite()).all()):
        raise ValueError(
            "prediction: expected standard deviations that are finite and > 0, got "
            f"{float(std.min()):.4g} to {float(std.max()):.4g}; add the noise of the targets"
        )
    return Mixture(mean, std)


def _read_draws(values: Tensor, target: Tensor) -> Draws:
    values = check_numbers(values, "prediction").double()
    if values.shape[1:] != target.shape:
        raise ValueError(
            f"prediction: expected draws (S, B, ...) of targets {tuple(target.shape)}, got "
            f"{tuple(values.shape)}; put the draws in front, or pass "
            "torch.distributions.Normal(mean, std)"
        )
    _check_finite(values)
    return Draws(values)


def _check_finite(values: Tensor) -> None:
    """Neither quantiles nor distances are known of draws at infinity."""
    if bool(values.isinf().any()):
        raise ValueError(
            f"prediction: expected finite numbers, got {int(values.isinf().sum())} infinite ones "
            f"among {values.numel()}; look for weights that have diverged, or remove these rows"
        )


def _check_fair(fair: bool, draws: int) -> None:
    if fair and draws < 2:
        raise ValueError("fair: expected two or more draws, got one; pass fair=False")


def _mean_absolute(mean: Tensor, std: Tensor) -> Tensor:
    """E|m + s e| = m erf(m / (s sqrt 2)) + s sqrt(2/pi) exp(-m^2 / (2 s^2)) for e ~ N(0, 1)."""
    z = mean / (math.sqrt(2) * std)
    return mean * torch.erf(z) + std * math.sqrt(2 / math.pi) * torch.exp(-z.square())
