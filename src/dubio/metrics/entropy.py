"""Accuracy against entropy: does a network that doubts err more often?"""

import math
from typing import Any, NamedTuple, final

from torch import Tensor

from dubio.metrics.bins import bin_means, bin_sums, check_bins
from dubio.metrics.reading import Classifiable, read_classified
from dubio.metrics.states import Summed


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
class AccuracyByEntropy(Summed):
    """`accuracy_by_entropy` over batches and processes."""

    def __init__(self, *, bins: int = 10, void: int | None = None, **kwargs: Any) -> None:
        check_bins(bins)
        super().__init__(3, bins, **kwargs)
        self.bins, self.void = bins, void

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        self.sums = self.sums + _sums(prediction, target, self.bins, self.void)

    def compute(self) -> EntropyCurve:
        """Return the curve."""
        return EntropyCurve(*bin_means(self.sums, type(self).__name__))


def _sums(prediction: Classifiable, target: Tensor, bins: int, void: int | None) -> Tensor:
    check_bins(bins)
    seen = read_classified(prediction, target, void)
    entropy = seen.entropy[seen.known].double()  # (N,)
    largest = math.log(max(2, seen.probabilities.shape[-1]))  # one class has entropy 0
    return bin_sums(entropy / largest, entropy, seen.accurate[seen.known], bins)
