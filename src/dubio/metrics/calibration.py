"""Calibration of class probabilities: of all cases that get 80 %, are 80 % right?

Calibration errors depend on their bins. Compare only those of equal bins and similar amounts of
data: few cases a bin make any of them too large.
"""

from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.metrics.bins import BinnedSums, bin_means, bin_sums, check_bins
from dubio.metrics.reading import Classifiable, check_classes, read_classified


class ReliabilityCurve(NamedTuple):
    """Mean confidence and accuracy bin by bin: each `(M,)`, or `(K, M)` by class.

    Bin m holds probabilities in ((m - 1)/M, m/M], the first also 0. Means of empty bins are NaN.
    """

    confidence: Tensor
    accuracy: Tensor
    cases: Tensor

    @property
    def gap(self) -> Tensor:
        """|accuracy - confidence|, and 0 in empty bins."""
        return (self.accuracy - self.confidence).abs().nan_to_num(0.0)

    @property
    def weight(self) -> Tensor:
        """The share of cases in each bin."""
        return self.cases / self.cases.sum(-1, keepdim=True)

    @property
    def expected_error(self) -> Tensor:
        """ECE: the mean gap, weighted by the number of cases."""
        return (self.weight * self.gap).sum(-1)

    @property
    def max_error(self) -> Tensor:
        """MCE: the largest gap of any non-empty bin."""
        return self.gap.amax(-1)

    @property
    def rmse(self) -> Tensor:
        """The root of the mean squared gap, weighted by the number of cases."""
        return (self.weight * self.gap.square()).sum(-1).sqrt()

    @property
    def unweighted_rmse(self) -> Tensor:
        """The root of the mean squared gap, with equal weights for all non-empty bins."""
        return (self.gap.square().sum(-1) / (self.cases > 0).sum(-1)).sqrt()

    def pooled(self) -> "ReliabilityCurve":
        """Return one curve `(M,)` for the probabilities of all classes together."""
        cases = self.cases.sum(0)
        confidence, accuracy = (
            (part * self.cases).nan_to_num(0.0).sum(0) / cases
            for part in (self.confidence, self.accuracy)
        )
        return ReliabilityCurve(confidence, accuracy, cases)


def reliability(
    prediction: Classifiable, target: Tensor, *, bins: int = 15, void: int | None = None
) -> ReliabilityCurve:
    """Return the reliability curve of the likeliest class and its probability: `(M,)`."""
    return ReliabilityCurve(*bin_means(_top_sums(prediction, target, bins, void), "reliability"))


def classwise_reliability(
    prediction: Classifiable, target: Tensor, *, bins: int = 15, void: int | None = None
) -> ReliabilityCurve:
    """Return a reliability curve for the probabilities of every class: `(K, M)`.

    `pooled()` joins them; `calibration_rmse` is an error of that curve.
    """
    sums = _class_sums(prediction, target, bins, void)
    return ReliabilityCurve(*bin_means(sums, "classwise_reliability"))


def ece(
    prediction: Classifiable, target: Tensor, *, bins: int = 15, void: int | None = None
) -> Tensor:
    """Return the ECE, sum_m n_m/N |accuracy_m - confidence_m| (Guo et al. 2017)."""
    return reliability(prediction, target, bins=bins, void=void).expected_error


def mce(
    prediction: Classifiable, target: Tensor, *, bins: int = 15, void: int | None = None
) -> Tensor:
    """Return the MCE, max_m |accuracy_m - confidence_m| (Guo et al. 2017)."""
    return reliability(prediction, target, bins=bins, void=void).max_error


def classwise_ece(
    prediction: Classifiable, target: Tensor, *, bins: int = 15, void: int | None = None
) -> Tensor:
    """Return the mean over classes of the ECE of their probabilities (SCE, Nixon et al. 2019)."""
    return classwise_reliability(prediction, target, bins=bins, void=void).expected_error.mean()


def calibration_rmse(
    prediction: Classifiable,
    target: Tensor,
    *,
    bins: int = 10,
    weighted: bool = True,
    void: int | None = None,
) -> Tensor:
    """Return the calibration RMSE over the probabilities of all classes together, N K of them.

    (sum_m w_m (frequency_m - mean probability_m)^2)^1/2, where a probability of class k is right if
    k is the label, and w_m = n_m/(N K), or 1/(non-empty bins) if not `weighted`. Gal et al. 2017,
    table 2, report such a number after Kendall and Gal (2017), without saying the weights and bins.
    With many classes most probabilities are in the lowest bin, which then dominates the weighted
    number: report both, and the number of bins.
    """
    sums = _pooled_sums(prediction, target, bins, void)
    return _rmse(ReliabilityCurve(*bin_means(sums, "calibration_rmse")), weighted)


class _Binned(BinnedSums):
    """Sums of confidence, hits and cases bin by bin: `(3, M)`."""

    def __init__(self, *, bins: int = 15, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(bins=bins, void=void, **kwargs)

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        self.sums = self.sums + _top_sums(prediction, target, self.bins, self.void)

    def curve(self) -> ReliabilityCurve:
        """Return the curve so far."""
        return ReliabilityCurve(*self.means())


@final
class Reliability(_Binned):
    """`reliability` over batches and processes."""

    def compute(self) -> ReliabilityCurve:
        """Return the curve."""
        return self.curve()


@final
class ECE(_Binned):
    """`ece` over batches and processes."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """Return the error."""
        return self.curve().expected_error


@final
class MCE(_Binned):
    """`mce` over batches and processes."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """Return the error."""
        return self.curve().max_error


@final
class CalibrationRMSE(_Binned):
    """`calibration_rmse` over batches and processes."""

    higher_is_better = False

    def __init__(
        self, *, bins: int = 10, weighted: bool = True, void: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(bins=bins, void=void, **kwargs)
        self.weighted = weighted

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        self.sums = self.sums + _pooled_sums(prediction, target, self.bins, self.void)

    def compute(self) -> Tensor:
        """Return the error."""
        return _rmse(self.curve(), self.weighted)


class _ClasswiseBinned(_Binned):
    """The same for each of K classes: `(3, K, M)`."""

    def __init__(
        self, num_classes: int, *, bins: int = 15, void: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(bins=bins, void=void, **kwargs)
        zeros = torch.zeros(3, num_classes, bins, dtype=torch.float64)
        self.add_state("sums", zeros, dist_reduce_fx="sum")

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        sums = _class_sums(prediction, target, self.bins, self.void)
        check_classes(sums.shape[1], self.sums.shape[1])
        self.sums = self.sums + sums


@final
class ClasswiseReliability(_ClasswiseBinned):
    """`classwise_reliability` over batches and processes."""

    def compute(self) -> ReliabilityCurve:
        """Return the curves."""
        return self.curve()


@final
class ClasswiseECE(_ClasswiseBinned):
    """`classwise_ece` over batches and processes."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """Return the error."""
        return self.curve().expected_error.mean()


def _top_sums(prediction: Classifiable, target: Tensor, bins: int, void: int | None) -> Tensor:
    check_bins(bins)
    seen = read_classified(prediction, target, void)
    confidence = seen.rows[0].amax(-1)  # (N,)
    return bin_sums(confidence, confidence, seen.accurate[seen.known], bins)  # (3, M)


def _class_sums(prediction: Classifiable, target: Tensor, bins: int, void: int | None) -> Tensor:
    check_bins(bins)
    probabilities, labels = read_classified(prediction, target, void).rows
    hits = F.one_hot(labels, probabilities.shape[-1])  # (N, K)
    columns = zip(probabilities.T.contiguous(), hits.T, strict=True)
    return torch.stack([bin_sums(p, p, hit, bins) for p, hit in columns], 1)  # (3, K, M)


def _pooled_sums(prediction: Classifiable, target: Tensor, bins: int, void: int | None) -> Tensor:
    return _class_sums(prediction, target, bins, void).sum(1)  # (3, M)


def _rmse(curve: ReliabilityCurve, weighted: bool) -> Tensor:
    return curve.rmse if weighted else curve.unweighted_rmse
