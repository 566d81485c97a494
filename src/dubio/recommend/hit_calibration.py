"""Whether items are hit as often as their probabilities say."""

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]

_EDGES = np.array([0, *(2.0**-power for power in range(8, 0, -1)), 1.0])  # of bins of probabilities


@final
@dataclass(frozen=True, eq=False)
class HitCalibration:
    """Calibration of recommendations: predicted against observed hits.

    If an item is next with probability p, among those that can be recommended, and m items are to
    be found, the model predicts a hit with probability 1 − (1 − p)ᵐ. This is right for small p: it
    treats draws as with replacement. Bins are of this probability, each twice as wide as the one
    before; empty bins have NaN.

    Attributes:
        edges: Edges of the bins, (M + 1,).
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
        """Mean predicted probability over all recommended items."""
        return float(np.nansum(self.predicted * self.count) / self.count.sum())

    @property
    def mean_observed(self) -> float:
        """Share of recommended items that were found; ideally ``mean_predicted``."""
        return float(np.nansum(self.observed * self.count) / self.count.sum())


@final
class Hits:
    """Predictions and hits, added up in bins."""

    def __init__(self) -> None:
        self._bins = np.zeros((3, len(_EDGES) - 1))  # count, predicted, observed

    def add(self, predicted: FloatArray, observed: npt.NDArray[Any]) -> None:
        """Add recommended items."""  # (N,) each
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
