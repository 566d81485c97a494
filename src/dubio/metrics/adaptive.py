"""Adaptive calibration error: bins that hold equally many cases."""

from typing import Any, final

import torch
from torch import Tensor

from dubio.metrics.bins import check_bins
from dubio.metrics.reading import Classifiable, read_classified
from dubio.metrics.states import KeptCases, check_counted
from dubio.metrics.ties import sort_with_ties


def ace(
    prediction: Classifiable, target: Tensor, *, bins: int = 15, void: int | None = None
) -> Tensor:
    """Return the adaptive calibration error, with bins of equal mass (Nixon et al. 2019).

    1/(K R) sum_k sum_r |frequency(k, r) - mean probability(k, r)|, where the N probabilities of
    class k are sorted and cut into R pieces whose sizes differ by at most one. Where a cut goes
    through equal probabilities, each piece gets its share of their labels. With fewer than R cases
    every case is a piece.
    """
    check_bins(bins)
    return _adaptive_error(*read_classified(prediction, target, void).rows, bins)


@final
class ACE(KeptCases):
    """`ace` over batches and processes; keeps all probabilities, 8 bytes for each of N K."""

    higher_is_better = False

    def __init__(self, *, bins: int = 15, void: int | None = None, **kwargs: Any) -> None:
        check_bins(bins)
        super().__init__("probabilities", "labels", **kwargs)
        self.bins, self.void = bins, void

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        probabilities, labels = read_classified(prediction, target, self.void).rows
        self.keep(probabilities=probabilities, labels=labels)

    def compute(self) -> Tensor:
        """Return the error."""
        labels = self.kept("labels").long()
        probabilities = self.kept("probabilities").reshape(len(labels), -1)
        return _adaptive_error(probabilities, labels, self.bins)


def _adaptive_error(probabilities: Tensor, labels: Tensor, bins: int) -> Tensor:
    check_counted(len(labels), "ace")
    errors = []
    for k, claimed in enumerate(probabilities.T):
        confidence, hits = sort_with_ties(claimed.double(), labels == k)
        gaps = (hits - confidence).tensor_split(min(bins, len(labels)))
        errors.append(torch.stack([gap.mean().abs() for gap in gaps]))
    return torch.stack(errors).mean()
