"""Accuracy against entropy: does an uncertain network err more often?"""

import math
from typing import Any, NamedTuple, final

from torch import Tensor

from dubio.metrics.bins import BinnedSums, bin_means, bin_sums, check_bins
from dubio.metrics.reading import Classifiable, read_classified


class EntropyCurve(NamedTuple):
    """Accuracy and mean entropy (nats) of the predictions in each of M bins, all `(M,)`.

    The bins have equal width between 0 and log K. Means of empty bins are NaN.
    """

    entropy: Tensor
    accuracy: Tensor
    cases: Tensor


def accuracy_by_entropy(
    prediction: Classifiable, target: Tensor, *, bins: int = 10, void: int | None = None
) -> EntropyCurve:
    """Return the accuracy of predictions, grouped by their entropy."""
    return EntropyCurve(*bin_means(_sums(prediction, target, bins, void), "accuracy_by_entropy"))


@final
class AccuracyByEntropy(BinnedSums):
    """`accuracy_by_entropy` over batches and processes."""

    def __init__(self, *, bins: int = 10, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(bins=bins, void=void, **kwargs)

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        self.sums = self.sums + _sums(prediction, target, self.bins, self.void)

    def compute(self) -> EntropyCurve:
        """Return the curve."""
        return EntropyCurve(*self.means())


def _sums(prediction: Classifiable, target: Tensor, bins: int, void: int | None) -> Tensor:
    check_bins(bins)
    seen = read_classified(prediction, target, void)
    entropy = seen.entropy[seen.known].double()  # (N,)
    largest = math.log(max(2, seen.probabilities.shape[-1]))  # one class has entropy 0
    return bin_sums(entropy / largest, entropy, seen.accurate[seen.known], bins)
