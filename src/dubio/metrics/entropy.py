"""Accuracy against entropy: does a network that doubts err more often?"""

import math
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torchmetrics import Metric

from dubio.metrics.bins import bin_sums, check_bins
from dubio.metrics.reading import read_classified
from dubio.metrics.states import check_counted
from dubio.predictive.predictive import Predictive


class EntropyCurve(NamedTuple):
    """Accuracy and mean entropy in nats of the predictions in each of M bins, all `(M,)`.

    The bins have equal width between 0 and log K. Means of empty bins are NaN.
    """

    entropy: Tensor
    accuracy: Tensor
    cases: Tensor


def accuracy_by_entropy(
    prediction: Predictive | Tensor, target: Tensor, *, bins: int = 10, void: int | None = None
) -> EntropyCurve:
    """Accuracy of predictions of similar entropy.

    Args:
        prediction: A `Predictive` of labels, or probabilities `(B, K, *P)`.
        target: Integer labels `(B, *P)`.
        bins: The number of bins of equal width.
        void: The label of places that do not count.
    """
    return _curve(_sums(prediction, target, bins, void), "accuracy_by_entropy")


@final
class AccuracyByEntropy(Metric):
    """`accuracy_by_entropy` over batches and processes, with a state of 3 M numbers.

    Args:
        bins: The number of bins of equal width.
        void: The label of places that do not count.
        kwargs: torchmetrics' own options.
    """

    full_state_update = False
    is_differentiable = False
    sums: Tensor

    def __init__(self, *, bins: int = 10, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_bins(bins)
        self.bins, self.void = bins, void
        self.add_state("sums", torch.zeros(3, bins, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, prediction: Predictive | Tensor, target: Tensor) -> None:
        """Adds a batch."""
        self.sums = self.sums + _sums(prediction, target, self.bins, self.void)

    def compute(self) -> EntropyCurve:
        """The curve."""
        return _curve(self.sums, type(self).__name__)


def _sums(prediction: Predictive | Tensor, target: Tensor, bins: int, void: int | None) -> Tensor:
    check_bins(bins)
    seen = read_classified(prediction, target, void)
    entropy = seen.entropy[seen.known].double()  # (N,)
    hits = seen.accurate[seen.known].double()
    largest = math.log(max(2, seen.probabilities.shape[-1]))  # one class has entropy 0
    values = torch.stack([entropy, hits, torch.ones_like(hits)])
    return bin_sums(entropy / largest, values, bins)


def _curve(sums: Tensor, name: str) -> EntropyCurve:
    entropy, hits, cases = sums
    check_counted(int(cases.sum()), name)
    return EntropyCurve(entropy / cases, hits / cases, cases)
