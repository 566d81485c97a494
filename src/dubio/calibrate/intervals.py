"""Conformal intervals for real targets."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from dubio.calibrate.conformal import Conformal, with_ties
from dubio.noise.float64 import in_float64, with_float64
from dubio.predictive.predictive import Predictive
from dubio.predictive.validation import NumberPrediction, check_numbers, number_prediction


@final
@dataclass(frozen=True)
class Intervals:
    """Prediction intervals, one for each target.

    Attributes:
        low: Its lower end, `(B, *E)`.
        high: Its upper end, `(B, *E)`.
    """

    low: Tensor
    high: Tensor

    @property
    def widths(self) -> Tensor:
        """Upper minus lower end, `(B, *E)`."""
        return self.high - self.low

    def contains(self, y: Tensor) -> Tensor:
        """Return whether targets lie in their intervals, ends included, `(B, *E)`."""
        if y.shape != self.low.shape:
            raise ValueError(
                f"y: expected targets of shape {tuple(self.low.shape)}, one for each interval, got "
                f"{tuple(y.shape)}; reshape them"
            )
        if bool(y.isnan().any()):
            raise ValueError(
                "y: expected numbers, got NaN, which no interval contains; take "
                "metrics.interval_coverage, which leaves missing targets out"
            )
        return (self.low <= y) & (y <= self.high)


class _ConformalIntervals(Conformal):
    """Intervals of all targets with a score up to a threshold.

    Each element of a target has a threshold of its own and is held with probability 1 − α; with
    α/D for each, D elements are held together. Ends are rounded outwards, so that no target is lost
    that lies on an end, as many do if targets are whole numbers or predictions are rounded.
    """

    @abstractmethod
    def _scores(self, p: Predictive, y: Tensor) -> Tensor:
        """Return how far each target is from its prediction, `(B, *E)`."""

    @abstractmethod
    def _interval(self, p: Predictive, threshold: Tensor) -> tuple[Tensor, Tensor]:
        """Return where scores are at most the threshold: the ends, each `(B, *E)`."""

    def fit(self, p: NumberPrediction, y: Tensor) -> Self:
        """Take the threshold from validation data.

        Args:
            p: A prediction of real targets, or mean and standard deviation, `(B, D)` each.
            y: Targets shaped as its mean.
        """
        p = number_prediction(p)
        known = check_numbers(p, y)
        self._calibrate(self._scores(p, in_float64(y)), known)
        self._keep_sizes(p)
        return self

    def forward(self, p: NumberPrediction) -> Intervals:
        """Return the intervals of new rows."""
        p = number_prediction(p)
        event = p.mean.shape[1:]
        threshold = self._known("threshold").to(with_float64(p.mean).device)
        if threshold.shape != event:  # of images, too
            raise ValueError(
                f"p: expected targets of shape {tuple(threshold.shape)}, as in the validation "
                f"data, got {tuple(event)}; fit on predictions of the same targets"
            )
        dtype = torch.promote_types(p.mean.dtype, torch.float32)
        low, high = self._interval(p, with_ties(threshold, dtype))
        ends = _outwards(low, -math.inf, dtype), _outwards(high, math.inf, dtype)
        return Intervals(*(end.to(p.mean.device) for end in ends))


@final
class StandardisedIntervals(_ConformalIntervals):
    """Conformal intervals: mean ± threshold · standard deviation.

    The score is |y − m(x)| / s(x) (Lei et al. 2018, section 5.2). The prediction says where targets
    are harder to predict, and validation data say how wide the intervals must be. Needs no stored
    draws.
    """

    def _scores(self, p: Predictive, y: Tensor) -> Tensor:
        std = in_float64(p.std)
        if not bool((std > 0).all()):
            raise ValueError(
                "p: expected a standard deviation > 0 everywhere, got 0; predict with a likelihood "
                "that has noise"
            )
        return (y - in_float64(p.mean)).abs() / std

    def _interval(self, p: Predictive, threshold: Tensor) -> tuple[Tensor, Tensor]:
        mean, reach = in_float64(p.mean), threshold * in_float64(p.std)
        return mean - reach, mean + reach


@final
class QuantileIntervals(_ConformalIntervals):
    """Conformalised quantile regression (CQR): the central interval, widened at both ends.

    The score is max(low(x) − y, y − high(x)) with the quantiles at α/2 and 1 − α/2, negative inside
    (Romano, Patterson and Candès 2019). Intervals keep the shape of the predictive distribution and
    need not be symmetric; intervals that are too wide shrink, at most to a point. Needs stored
    draws.
    """

    def _scores(self, p: Predictive, y: Tensor) -> Tensor:
        low, high = p.interval(1 - float(self.alpha))
        return torch.maximum(in_float64(low) - y, y - in_float64(high))

    def _interval(self, p: Predictive, threshold: Tensor) -> tuple[Tensor, Tensor]:
        low, high = map(in_float64, p.interval(1 - float(self.alpha)))
        middle = low + (high - low) / 2
        return torch.minimum(low - threshold, middle), torch.maximum(high + threshold, middle)


def _outwards(ends: Tensor, direction: float, dtype: torch.dtype) -> Tensor:
    """Return the next number of a type beyond the nearest one."""
    nearest = ends.to(dtype)
    return nearest.nextafter(nearest.new_tensor(direction))
