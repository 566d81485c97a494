"""Whether items are found as often as probabilities say."""

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]

_EDGES = np.array([0, *(2.0**-power for power in range(8, 0, -1)), 1.0])  # of bins of probabilities


@final
@dataclass(frozen=True, eq=False)
class HitCalibration:
    """Whether items are found as often as the model says.

    With probability p of an item to be next, among those that can be recommended, and m items to
    be found, the model says that it is one of them with probability 1 − (1 − p)ᵐ, which is right
    for small p: draws are taken to be with replacement. Bins are of this probability, each twice as
    wide as the one before; bins without items have NaN.

    Attributes:
        edges: Where bins begin and end, (M + 1,).
        count: Recommended items, (M,).
        predicted: Mean predicted probability, (M,).
        observed: Share of items that were found, (M,).
    """

    edges: FloatArray
    count: npt.NDArray[np.int64]
    predicted: FloatArray
    observed: FloatArray

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of ``observed``, (M,), as if items were independent."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(self.observed * (1 - self.observed) / self.count)

    @property
    def mean_predicted(self) -> float:
        """Over all recommended items."""
        return float(np.nansum(self.predicted * self.count) / self.count.sum())

    @property
    def mean_observed(self) -> float:
        """Over all recommended items: what ``mean_predicted`` should be."""
        return float(np.nansum(self.observed * self.count) / self.count.sum())


@final
class Hits:
    """Predictions and what came of them, added up in bins."""

    def __init__(self) -> None:
        self._bins = np.zeros((3, len(_EDGES) - 1))  # count, predicted, observed

    def add(self, predicted: FloatArray, observed: npt.NDArray[Any]) -> None:
        """Enter recommended items."""  # (N,) each
        bins = np.clip(np.digitize(predicted, _EDGES) - 1, 0, len(_EDGES) - 2)
        for row, weights in enumerate((None, predicted, observed)):
            self._bins[row] += np.bincount(bins, weights, minlength=len(_EDGES) - 1)

    def calibration(self) -> HitCalibration:
        """Return the means of the bins."""
        count, predicted, observed = self._bins
        with np.errstate(invalid="ignore"):
            return HitCalibration(
                _EDGES.copy(), count.astype(np.int64), predicted / count, observed / count
            )
