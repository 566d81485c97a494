"""Predictive distributions of real targets, from whatever form they are given in.

- A `Predictive` with a Gaussian likelihood is an equal mixture of Gaussians, and is read as one,
  exactly; with another likelihood of numbers its own cdf is what counts; without a likelihood it is
  a set of draws.
- A pair `(mean, std)` of the shape of the targets is one Gaussian, as for `dubio.calibrate`.
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
from dubio.metrics.components import Components, check_fair
from dubio.metrics.reading import check_numbers, check_shape
from dubio.noise.float64 import in_float64, with_float64
from dubio.predictive.predictive import Interval, Predictive

Forecastable = Predictive | Normal | Tensor | tuple[Tensor, Tensor]  # mean and std


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
        """Return 1/S sum_t Phi((y - f_t) / s_t)."""
        reached: Tensor = Normal(self.mean, self.std, validate_args=False).cdf(target)
        return reached.mean(0)

    cdf_below = cdf

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
        check_fair(fair, draws)
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
        """Return (rank + 1/2) / (S + 1), where draws equal to the target count half.

        If the target is one more draw of the same distribution, its rank is uniform over 0 … S;
        rank/S would put too much weight on the ends.
        """
        below = (self.values < target).sum(0) + 0.5 * (self.values == target).sum(0)
        return (below + 0.5) / (len(self.values) + 1)

    cdf_below = cdf

    def quantile(self, level: float) -> Tensor:
        """Interpolated between draws."""
        return empirical_quantile(self.values, level)

    def crps(self, target: Tensor, fair: bool) -> Tensor:
        """Return 1/S sum_t |x_t - y| - 1/(2 S^2) sum_tu |x_t - x_u|, or 1/(2 S (S - 1)) if fair.

        The double sum is 2 sum_i (2 i - S - 1) x_(i) over sorted draws, in S log S steps. An
        infinite target has an infinite score.
        """
        draws = len(self.values)
        check_fair(fair, draws)
        offset = self.values - target.where(target.isfinite(), 0)
        rank = torch.arange(1 - draws, draws, 2, dtype=offset.dtype, device=offset.device)
        pairs: Tensor = torch.tensordot(rank, offset.sort(0).values, 1)  # half the double sum
        error = (self.values - target).abs().mean(0)
        return error - pairs / (draws * (draws - 1 if fair else draws))


Forecast = Mixture | Draws | Components


@final
@dataclass(frozen=True)
class Truth:
    """Targets, some of which may be missing.

    Attributes:
        values: `(B, *E)`, in float64; 0 where they are missing.
        known: Where they are not missing; None if none is.
    """

    values: Tensor
    known: Tensor | None

    def kept(self, scores: Tensor) -> Tensor:
        """Return the scores of targets, or of rows that have any, without those of missing ones."""
        if self.known is None:
            return scores
        if scores.shape == self.known.shape:
            return scores[self.known]
        return scores[self.known.flatten(1).any(1)]


def read_forecast(prediction: Forecastable, target: Tensor) -> tuple[Forecast, Truth]:
    """Return the distribution in float64, and the targets, both checked."""
    prediction = _as_normal(prediction)
    _check_kind(prediction)
    if isinstance(prediction, Predictive) and prediction.likelihood.discrete:
        raise TypeError(
            f"prediction: expected real targets, got {prediction.likelihood!r}; predict with "
            "likelihood=dubio.likelihoods.Gaussian(noise_precision) or HeteroscedasticGaussian()"
        )
    truth = read_truth(prediction, target)
    target = truth.values
    if isinstance(prediction, Predictive):
        likelihood, outputs = prediction.likelihood, in_float64(prediction.draws)
        if not likelihood.noisy:
            return _read_draws(outputs, target), truth
        mean = likelihood.mean(outputs)
        if likelihood.gaussian:
            return _read_mixture(mean, likelihood.variance(outputs).sqrt(), target), truth
        _check_finite(check_numbers(mean, "prediction"))
        check_shape(mean[0], target.shape, "prediction, one draw of it", "the targets")
        return Components(likelihood, outputs), truth
    if isinstance(prediction, Normal):
        mean, std = in_float64(prediction.mean), in_float64(prediction.stddev)
        one = mean.shape == target.shape
        return _read_mixture(*((mean[None], std[None]) if one else (mean, std)), target), truth
    assert isinstance(prediction, Tensor)
    return _read_draws(prediction, target), truth


def read_truth(prediction: Forecastable, target: Tensor) -> Truth:
    """Return targets in float64; NaN only where they may be missing."""
    if not isinstance(prediction, Predictive) or not isinstance(target, Tensor):
        return Truth(check_numbers(target, "target").double(), None)
    target = with_float64(target)
    if prediction.likelihood.whole and not target.is_floating_point():
        target = target.double()
    known = prediction.likelihood.known(target)
    target = target if known is None else target.where(known, 0)
    return Truth(check_numbers(target, "target").double(), known)


def read_mean(prediction: Forecastable, target: Tensor) -> tuple[Tensor, Truth]:
    """Point predictions `(B, *E)` and targets; a tensor is the predictions themselves."""
    prediction = _as_normal(prediction)
    _check_kind(prediction)
    truth = read_truth(prediction, target)
    mean = prediction.mean if isinstance(prediction, Predictive | Normal) else prediction
    assert isinstance(mean, Tensor)
    mean = check_numbers(mean, "prediction").double()
    if isinstance(prediction, Normal) and mean.shape[1:] == truth.values.shape:
        mean = mean.mean(0)
    check_shape(mean, truth.values.shape, "prediction", "the targets")
    return mean, truth


def _as_normal(prediction: Forecastable) -> Forecastable:
    """Return a mean and a standard deviation as a Gaussian."""
    if not isinstance(prediction, tuple):
        return prediction
    if isinstance(prediction, Interval):
        raise TypeError(
            "prediction: expected a distribution, got an Interval, which only interval_coverage "
            "and interval_score accept; pass the prediction itself"
        )
    if len(prediction) != 2 or not all(isinstance(part, Tensor) for part in prediction):
        raise TypeError(
            f"prediction: expected a pair (mean, std) of tensors, got a tuple of "
            f"{[type(part).__name__ for part in prediction]}; pass two tensors"
        )
    mean, std = prediction
    check_shape(std, mean.shape, "prediction, the standard deviation", "the mean")
    return Normal(mean, std, validate_args=False)


def _check_kind(prediction: Forecastable) -> None:
    if not isinstance(prediction, Predictive | Normal | Tensor):
        raise TypeError(
            f"prediction: expected a Predictive, a torch.distributions.Normal or a tensor, got "
            f"{type(prediction).__name__}; make a tensor with torch.as_tensor. For a closed-form "
            "distribution, such as that of BayesianDropoutRegression, pass its mean to rmse and "
            "its sample(1000) to other scores; lppd is the mean of its own log_prob(y)."
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


def _mean_absolute(mean: Tensor, std: Tensor) -> Tensor:
    """Return E|m + s e| = m erf(m / (s √2)) + s √(2/π) exp(-m² / (2 s²)), e ~ N(0, 1)."""
    z = mean / (math.sqrt(2) * std)
    return mean * torch.erf(z) + std * math.sqrt(2 / math.pi) * torch.exp(-z.square())
