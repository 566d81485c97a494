"""Scores of predictions of real targets: RMSE, predictive log-likelihood, CRPS, intervals.

Targets are `(B, *E)`. A prediction is a `Predictive`, a `Normal`, a pair `(mean, std)`, or draws of
the target `(S, B, *E)`; where a score takes something else, it says so. Targets that are missing,
NaN for a likelihood with ``missing="ignore"``, are left out.
"""

from typing import Any, Protocol, final, runtime_checkable

from torch import Tensor

from dubio.likelihoods.quantiles import check_probability
from dubio.metrics.forecasts import Forecastable, Truth, read_forecast, read_mean
from dubio.metrics.reading import check_numbers, check_shape
from dubio.metrics.states import Average, average
from dubio.predictive.predictive import Interval, Predictive


@runtime_checkable
class HasEnds(Protocol):
    """Intervals, as `dubio.calibrate` returns them."""

    @property
    def low(self) -> Tensor:
        """The lower ends, `(B, *E)`."""
        ...

    @property
    def high(self) -> Tensor:
        """The upper ends, `(B, *E)`."""
        ...


AnyIntervals = Interval | HasEnds


def rmse(prediction: Forecastable, target: Tensor) -> Tensor:
    """Return the root mean squared error of the predictive mean, over all elements.

    A tensor is taken as the predicted means `(B, *E)`.
    """
    return average(_squares(prediction, target), "rmse").sqrt()


def lppd(prediction: Forecastable, target: Tensor) -> Tensor:
    """Return the mean over points of log 1/S sum_t p(y | x, omega_t): Clark et al. 2022, eq. 20.

    The mixture over draws is inside the logarithm, point by point; a point is a row, jointly over
    its elements. Eq. 19 of the paper (and Gelman et al.) sums over points instead: multiply by
    their number. Draws without a likelihood have no density; labels have one too.
    """
    return average(_log_densities(prediction, target), "lppd")


def crps(prediction: Forecastable, target: Tensor, *, fair: bool = False) -> Tensor:
    """Return the continuous ranked probability score, int (F(x) - 1[y <= x])^2 dx.

    It is the mean over elements, in the units of the target; for a single value it is the absolute
    error. Smaller is better.

    Args:
        prediction: The prediction.
        target: Its targets.
        fair: False scores the S draws as they are, as the forecast that is used. True estimates the
            score of the distribution that they come from, without bias (Ferro 2014): use it to
            compare methods at different numbers of draws. It needs two or more.
    """
    return average(_ranked(prediction, target, fair), "crps")


def interval_coverage(
    prediction: Forecastable | AnyIntervals, target: Tensor, *, level: float = 0.95
) -> Tensor:
    """Return the share of targets within the central interval, ends included; ideally `level`.

    Intervals may also be given, as `Interval(low, high)` or from `dubio.calibrate`. For counts the
    share is larger, since an interval of whole numbers cannot be cut more finely.
    """
    return average(_inside(prediction, target, level), "interval_coverage")


def interval_score(
    prediction: Forecastable | AnyIntervals, target: Tensor, *, level: float = 0.95
) -> Tensor:
    """Return Winkler's score: width + 2/a (distance of target from interval), a = 1 - level.

    It is a proper score: the interval of the true quantiles has the smallest (Gneiting and Raftery
    2007, eq. 43). In the units of the target; smaller is better. Intervals may also be given, as
    `Interval(low, high)` or from `dubio.calibrate`, with their level.
    """
    return average(_winkler(prediction, target, level), "interval_score")


@final
class RMSE(Average):
    """`rmse` over batches and processes."""

    higher_is_better = False

    def update(self, prediction: Forecastable, target: Tensor) -> None:
        """Add a batch."""
        self.add(_squares(prediction, target))

    def compute(self) -> Tensor:
        """Return the error."""
        return super().compute().sqrt()


@final
class LPPD(Average):
    """`lppd` over batches and processes."""

    higher_is_better = True

    def update(self, prediction: Forecastable, target: Tensor) -> None:
        """Add a batch."""
        self.add(_log_densities(prediction, target))


@final
class CRPS(Average):
    """`crps` over batches and processes."""

    higher_is_better = False

    def __init__(self, *, fair: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fair = fair

    def update(self, prediction: Forecastable, target: Tensor) -> None:
        """Add a batch."""
        self.add(_ranked(prediction, target, self.fair))


class _OfIntervals(Average):
    """A mean over intervals."""

    def __init__(self, *, level: float = 0.95, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_probability("level", level, "0.95 is a common choice")
        self.level = level


@final
class IntervalCoverage(_OfIntervals):
    """`interval_coverage` over batches and processes."""

    def update(self, prediction: Forecastable | AnyIntervals, target: Tensor) -> None:
        """Add a batch."""
        self.add(_inside(prediction, target, self.level))


@final
class IntervalScore(_OfIntervals):
    """`interval_score` over batches and processes."""

    higher_is_better = False

    def update(self, prediction: Forecastable | AnyIntervals, target: Tensor) -> None:
        """Add a batch."""
        self.add(_winkler(prediction, target, self.level))


def _squares(prediction: Forecastable, target: Tensor) -> Tensor:
    mean, truth = read_mean(prediction, target)
    return truth.kept((mean - truth.values).square())


def _log_densities(prediction: Forecastable, target: Tensor) -> Tensor:
    if isinstance(prediction, Predictive):
        logs = prediction.log_prob(target)  # draws that are not kept will do
        return Truth(target, prediction.likelihood.known(target)).kept(logs)
    forecast, truth = read_forecast(prediction, target)
    return forecast.log_prob(truth.values)


def _ranked(prediction: Forecastable, target: Tensor, fair: bool) -> Tensor:
    forecast, truth = read_forecast(prediction, target)
    return truth.kept(forecast.crps(truth.values, fair))


def _ends(
    prediction: Forecastable | AnyIntervals, target: Tensor, level: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ends and the target, each of the targets that are known, `(N,)` or `(B, *E)`."""
    check_probability("level", level, "0.95 is a common choice")
    if isinstance(prediction, tuple) and not isinstance(prediction, Interval):
        raise TypeError(
            "prediction: expected Interval(low, high) or a distribution, got a plain tuple; a pair "
            "is (mean, std) elsewhere: write dubio.metrics.Interval(low, high) for ends, and "
            "torch.distributions.Normal(mean, std) for the other"
        )
    if not isinstance(prediction, HasEnds):
        forecast, truth = read_forecast(prediction, target)
        ends = (forecast.quantile((1 - level) / 2), forecast.quantile((1 + level) / 2))
        low, high, found = map(truth.kept, (*ends, truth.values))
        return low, high, found
    low, high = (
        check_numbers(end, "prediction").double() for end in (prediction.low, prediction.high)
    )
    target = check_numbers(target, "target").double()
    for end in (low, high):
        check_shape(end, target.shape, "prediction, an end of the interval", "the targets")
    if bool((low > high).any()):
        raise ValueError(
            f"prediction: expected Interval(low, high) with low <= high, got "
            f"{int((low > high).sum())} intervals upside down; swap the ends"
        )
    return low, high, target


def _inside(prediction: Forecastable | AnyIntervals, target: Tensor, level: float) -> Tensor:
    low, high, target = _ends(prediction, target, level)
    return (low <= target) & (target <= high)


def _winkler(prediction: Forecastable | AnyIntervals, target: Tensor, level: float) -> Tensor:
    low, high, target = _ends(prediction, target, level)
    outside = (low - target).clamp(min=0) + (target - high).clamp(min=0)
    return high - low + 2 / (1 - level) * outside
