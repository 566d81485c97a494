"""Calibration of real predictions: are 10 % of the targets below the quantile of level 10 %?"""

from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torchmetrics import Metric

from dubio.metrics.forecasts import Forecastable, read_forecast
from dubio.metrics.states import check_counted


class QuantileCurve(NamedTuple):
    """Levels of quantiles, and the shares of targets below them: each `(levels,)`."""

    expected: Tensor
    observed: Tensor

    @property
    def rmse(self) -> Tensor:
        """The root of the mean over levels of (observed - expected)^2; 0 if calibrated."""
        return (self.observed - self.expected).square().mean().sqrt()


def quantile_calibration(
    prediction: Forecastable, target: Tensor, *, levels: int = 19
) -> QuantileCurve:
    """Observed against expected levels (Kuleshov et al. 2018).

    A target is below the quantile of level q if F(y) <= q. The levels are i/(levels + 1), without
    0 and 1, where every curve agrees. Every element of a target counts as a target of its own.

    Args:
        prediction: A `Predictive`, a `Normal`, or draws of the target `(S, B, *E)`.
        target: `(B, *E)`.
        levels: Their number.
    """
    at = _levels(levels)
    return _curve(at, _below(prediction, target, at), torch.tensor(target.numel()))


def quantile_calibration_rmse(
    prediction: Forecastable, target: Tensor, *, levels: int = 19
) -> Tensor:
    """The RMSE of `quantile_calibration` from the diagonal."""
    return quantile_calibration(prediction, target, levels=levels).rmse


class _Counted(Metric):
    """Counts of targets below each level: its state does not grow with the data.

    Args:
        levels: Their number.
        kwargs: torchmetrics' own options.
    """

    full_state_update = False
    is_differentiable = False
    below: Tensor
    count: Tensor

    def __init__(self, *, levels: int = 19, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.levels = len(_levels(levels))
        self.add_state("below", torch.zeros(levels, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, prediction: Forecastable, target: Tensor) -> None:
        """Adds a batch."""
        self.below = self.below + _below(prediction, target, _levels(self.levels))
        self.count = self.count + target.numel()

    def curve(self) -> QuantileCurve:
        """The curve so far."""
        return _curve(_levels(self.levels), self.below, self.count)


@final
class QuantileCalibration(_Counted):
    """`quantile_calibration` over batches and processes."""

    def compute(self) -> QuantileCurve:
        """The curve."""
        return self.curve()


@final
class QuantileCalibrationRMSE(_Counted):
    """`quantile_calibration_rmse` over batches and processes."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """The error."""
        return self.curve().rmse


def _levels(count: int) -> Tensor:
    if count < 1:
        raise ValueError(f"levels: expected at least 1, got {count}; 19 gives steps of 5 %")
    return torch.arange(1, count + 1, dtype=torch.float64) / (count + 1)


def _below(prediction: Forecastable, target: Tensor, levels: Tensor) -> Tensor:
    forecast, target = read_forecast(prediction, target)
    reached = forecast.cdf(target).flatten().sort().values
    return torch.searchsorted(reached, levels.to(reached.device), right=True)  # (levels,)


def _curve(levels: Tensor, below: Tensor, count: Tensor) -> QuantileCurve:
    check_counted(int(count), "quantile_calibration")
    return QuantileCurve(levels.to(below.device), below / count.double())
