"""Calibration of real predictions: are 10 % of the targets below the quantile of level 10 %?"""

from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.metrics.counts import check_count
from dubio.metrics.forecasts import Forecastable, read_forecast
from dubio.metrics.states import Summed, check_counted


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
    """Return observed against expected quantile levels (Kuleshov et al. 2018).

    A target is below the quantile of level q if F(y) <= q. The levels are i/(levels + 1), without
    0 and 1, where every curve agrees. Every element of a target counts as a target of its own. A
    count y, for which F jumps from F(y - 1) to F(y), is below by the share of the jump that q has
    passed (Czado, Gneiting and Held 2009, eq. 2): else no forecast of counts would be calibrated.
    """
    return _curve(_counts(prediction, target, levels))


def quantile_calibration_rmse(
    prediction: Forecastable, target: Tensor, *, levels: int = 19
) -> Tensor:
    """Return the RMSE of `quantile_calibration` from the diagonal."""
    return quantile_calibration(prediction, target, levels=levels).rmse


class _Counted(Summed):
    """Counts of targets below each of some levels, and of all targets."""

    def __init__(self, *, levels: int = 19, **kwargs: Any) -> None:
        _check_levels(levels)
        super().__init__(levels + 1, **kwargs)
        self.levels = levels

    def update(self, prediction: Forecastable, target: Tensor) -> None:
        """Add a batch."""
        self.sums = self.sums + _counts(prediction, target, self.levels)

    def curve(self) -> QuantileCurve:
        """Return the curve so far."""
        return _curve(self.sums)


@final
class QuantileCalibration(_Counted):
    """`quantile_calibration` over batches and processes."""

    def compute(self) -> QuantileCurve:
        """Return the curve."""
        return self.curve()


@final
class QuantileCalibrationRMSE(_Counted):
    """`quantile_calibration_rmse` over batches and processes."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """Return the error."""
        return self.curve().rmse


def _check_levels(levels: int) -> None:
    check_count(levels, 1, "levels", "19 gives steps of 5 %")


def _levels(count: int, device: torch.device) -> Tensor:
    return torch.arange(1, count + 1, dtype=torch.float64, device=device) / (count + 1)


def _counts(prediction: Forecastable, target: Tensor, levels: int) -> Tensor:
    """Return targets below each level, and all of them: `(levels + 1,)`."""
    _check_levels(levels)
    forecast, truth = read_forecast(prediction, target)
    after = truth.kept(forecast.cdf(truth.values)).flatten()
    before = truth.kept(forecast.cdf_below(truth.values)).flatten()
    places = _levels(levels, after.device)
    if torch.equal(before, after):
        below = torch.searchsorted(after.sort().values, places, right=True).double()
    else:
        jump = (after - before).clamp(min=torch.finfo(after.dtype).tiny)
        below = torch.stack([((q - before) / jump).clamp(0, 1).sum() for q in places])
    return F.pad(below, (0, 1), value=len(after))


def _curve(counts: Tensor) -> QuantileCurve:
    *_, total = counts
    check_counted(int(total), "quantile_calibration")
    expected = _levels(len(counts) - 1, counts.device)
    return QuantileCurve(expected, counts[:-1] / total.double())
