"""PAvgPU: is the network accurate where it is certain, and uncertain where it errs?

Mukhoti and Gal (2018); Boluki et al. 2020, eq. 9. With n_ac predictions that are accurate and
certain, n_au accurate and uncertain, n_ic inaccurate and certain, n_iu inaccurate and uncertain,

    PAvgPU = (n_ac + n_iu) / (n_ac + n_au + n_ic + n_iu).

A prediction is uncertain if its entropy exceeds a threshold. Over the threshold
min + t (max - min), 0 <= t <= 1, this is a curve. It begins at the share of inaccurate predictions
and ends at that of accurate ones, so its mean says as much about the histogram of entropies as
about their merit: look at the curve, or at that of ranks, where the histogram is always flat.
"""

import math
from numbers import Real
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.metrics.counts import check_count
from dubio.metrics.reading import Classifiable, Classified, read_classified
from dubio.metrics.states import KeptCases, check_counted
from dubio.metrics.ties import mid_ranks

Bounds = tuple[float, float]


class Certainty(NamedTuple):
    """Counts of accurate and certain predictions, at one threshold or at several."""

    accurate_certain: Tensor
    accurate_uncertain: Tensor
    inaccurate_certain: Tensor
    inaccurate_uncertain: Tensor

    @property
    def accurate_given_certain(self) -> Tensor:
        """P(accurate | certain); NaN where nothing is certain."""
        return self.accurate_certain / (self.accurate_certain + self.inaccurate_certain)

    @property
    def uncertain_given_inaccurate(self) -> Tensor:
        """P(uncertain | inaccurate); NaN if nothing is inaccurate."""
        return self.inaccurate_uncertain / (self.inaccurate_uncertain + self.inaccurate_certain)

    @property
    def pavgpu(self) -> Tensor:
        """PAvgPU: the share of predictions that are accurate and certain, or neither (eq. 9)."""
        return (self.accurate_certain + self.inaccurate_uncertain) / sum(self, torch.tensor(0.0))


class PAvgPUCurve(NamedTuple):
    """PAvgPU and its two parts over t, each `(points,)`; thresholds are in nats, or ranks."""

    t: Tensor
    threshold: Tensor
    accurate_given_certain: Tensor
    uncertain_given_inaccurate: Tensor
    pavgpu: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean over t in [0, 1], by the trapezoid rule.

        With many points it tends to the mean of 1 - r over accurate and r over inaccurate
        predictions, where r = (entropy - min)/(max - min), or the rank. Of ranks that is
        1/2 + 2 a (1 - a) (AUROC - 1/2), with the accuracy a and the AUROC of `error_detection`.
        """
        return torch.trapezoid(self.pavgpu, self.t)


def certainty(
    prediction: Classifiable,
    target: Tensor,
    *,
    threshold: float | Literal["mean"] = "mean",
    uncertainty: Tensor | None = None,
    window: int = 1,
    stride: int | None = None,
    void: int | None = None,
) -> Certainty:
    """Return the counts behind PAvgPU (eq. 9) at one threshold; see `pavgpu` for other arguments.

    Entropies above the threshold, in nats, are uncertain, unless they exceed it only by rounding at
    the precision of the prediction. "mean" takes the mean entropy.
    """
    _check_threshold(threshold)
    seen = read_classified(prediction, target, void)
    doubt, accurate = _judge(seen, uncertainty, window, stride)
    check_counted(len(doubt), "certainty")
    given = seen.probabilities if uncertainty is None else uncertainty
    limit = doubt.mean() if threshold == "mean" else doubt.new_tensor(threshold)
    certain = doubt <= _rounded_up(limit, torch.finfo(given.dtype).eps)
    pairs = [(accurate, certain), (accurate, ~certain), (~accurate, certain), (~accurate, ~certain)]
    return Certainty(*((one & other).sum().double() for one, other in pairs))


def pavgpu(
    prediction: Classifiable,
    target: Tensor,
    *,
    bounds: Bounds | None = None,
    ranks: bool = False,
    points: int = 101,
    uncertainty: Tensor | None = None,
    window: int = 1,
    stride: int | None = None,
    void: int | None = None,
) -> PAvgPUCurve:
    """Return the curve of PAvgPU over thresholds from the smallest to the largest entropy.

    Ties: an entropy equal to the threshold is certain, for t > 0. At t = 0 everything is uncertain
    and at t = 1 everything is certain, so the ends are exactly the shares of inaccurate and of
    accurate predictions, also if many entropies equal the smallest, or all are the same, or some
    lie outside `bounds`.

    Patches: the entropy of a patch is the mean, and it is accurate if more than half of its pixels
    are; void pixels do not count, and patches without other pixels are ignored. Patches at the
    right and lower edge may be smaller. Entropies are those of single images, and windows have two
    dimensions: the published code of Boluki et al. 2020 sums entropies over a batch of images, and
    confuses rows and columns.

    `bounds` are the smallest and largest entropy, of validation data or, by default, of these data;
    `points` values of t are equally spaced from 0 to 1. Patches have `window` x `window` pixels (1
    for every row or pixel) and begin every `stride` pixels, by default every `window`.

    `ranks` replaces every entropy h_i, of a place or patch, by its rank among all N of them, r_i =
    (#{h_j < h_i} + 1/2 #{h_j = h_i})/N, with thresholds t from 0 to 1: r_i <= t is certain, about
    the share t of all. No increasing function of the h_i changes this curve, so it does not depend
    on the shape of their histogram.
    """
    _check_grid(points, bounds, ranks)
    doubt, accurate = _judge(read_classified(prediction, target, void), uncertainty, window, stride)
    check_counted(len(doubt), "pavgpu")
    return _curve_of(doubt, accurate, bounds, ranks, points)


@final
class PAvgPU(KeptCases):
    """`pavgpu` over batches and processes, with the same arguments.

    With `bounds` its state is 2 numbers per point. Without, thresholds are only known at the end,
    and it keeps 16 bytes for every prediction or patch.
    """

    higher_is_better = True
    counts: Tensor

    def __init__(
        self,
        *,
        bounds: Bounds | None = None,
        ranks: bool = False,
        points: int = 101,
        window: int = 1,
        stride: int | None = None,
        void: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*(() if bounds else ("doubts", "hits")), **kwargs)
        _check_grid(points, bounds, ranks)
        self.bounds, self.ranks, self.points = bounds, ranks, points
        self.window, self.stride, self.void = window, stride, void
        if bounds:
            zeros = torch.zeros(2, points, dtype=torch.float64)
            self.add_state("counts", zeros, dist_reduce_fx="sum")

    def update(
        self, prediction: Classifiable, target: Tensor, uncertainty: Tensor | None = None
    ) -> None:
        """Add a batch."""
        seen = read_classified(prediction, target, self.void)
        doubt, accurate = _judge(seen, uncertainty, self.window, self.stride)
        if self.bounds:
            self.counts = self.counts + _count(doubt, accurate, self.bounds, self.points)
        else:
            self.keep(doubts=doubt, hits=accurate)

    def compute(self) -> PAvgPUCurve:
        """Return the curve."""
        if self.bounds:
            check_counted(int(self.counts.sum()), type(self).__name__)
            return _curve(self.counts, self.bounds)
        doubts, hits = self.kept("doubts"), self.kept("hits").bool()
        return _curve_of(doubts, hits, None, self.ranks, self.points)


def _check_threshold(threshold: float | Literal["mean"]) -> None:
    if threshold != "mean" and (not isinstance(threshold, Real) or math.isnan(threshold)):
        raise ValueError(
            f"threshold: expected a number in nats or 'mean', got {threshold!r}; pass 'mean' for "
            "the mean entropy"
        )


def _check_grid(points: int, bounds: Bounds | None, ranks: bool) -> None:
    check_count(points, 2, "points", "they have two ends, and 101 is a common choice")
    if bounds and ranks:
        raise ValueError(
            f"bounds: expected none with ranks=True, got {bounds}; ranks lie between 0 and 1, so "
            "leave one of the two out"
        )
    if bounds and not -math.inf < bounds[0] <= bounds[1] < math.inf:
        raise ValueError(
            f"bounds: expected finite numbers (smallest, largest), got {bounds}; take those of "
            "validation data, or (0, log K) for K classes"
        )


def _rounded_up(threshold: Tensor, eps: float) -> Tensor:
    """Return a threshold that is not exceeded by what equals it but for rounding."""
    return threshold + 4 * eps * threshold.abs()


def _judge(
    seen: Classified, uncertainty: Tensor | None, window: int, stride: int | None
) -> tuple[Tensor, Tensor]:
    """Return uncertainty (float64) and accuracy of every place or patch: `(N,)`."""
    check_count(window, 1, "window", "1 is every row or pixel")
    if stride is not None:
        check_count(stride, 1, "stride", "leave it out for windows side by side")
    doubt = seen.doubt(uncertainty)
    if window == 1 and stride in (None, 1):
        return doubt[seen.known].double(), seen.accurate[seen.known]
    if seen.labels.ndim != 3:
        raise ValueError(
            f"window: expected patches of images (B, H, W), got targets "
            f"{tuple(seen.labels.shape)}, window {window} and stride {stride}; use window=1 for "
            "rows"
        )
    parts = torch.stack([doubt, seen.accurate, seen.known], 1) * seen.known.unsqueeze(1)
    step = stride or window
    beyond = [  # pixels that the last patch lacks
        max(0, -(-(size - window) // step)) * step + window - size for size in seen.labels.shape[1:]
    ]
    parts = F.pad(parts.double(), (0, beyond[1], 0, beyond[0]))  # (B, 3, H, W)
    sums = F.avg_pool2d(parts, window, step, divisor_override=1)
    total, hits, count = sums.movedim(1, 0).flatten(1)  # (N,) each
    full = count > 0
    return (total / count)[full], (hits / count > 0.5)[full]


def _count(doubt: Tensor, accurate: Tensor, bounds: Bounds, points: int) -> Tensor:
    """Return how many become certain at each t: `(2, points)`, accurate ones first."""
    t = torch.linspace(0, 1, points, dtype=torch.float64, device=doubt.device)
    thresholds = _rounded_up(_thresholds(t, bounds), torch.finfo(torch.float64).eps)
    first = torch.bucketize(doubt.clamp(max=bounds[1]), thresholds)  # h <= threshold
    place = first.clamp(min=1) + points * ~accurate  # at t = 0 nothing is certain
    return torch.bincount(place, minlength=2 * points).double().reshape(2, points)


def _thresholds(t: Tensor, bounds: Bounds) -> Tensor:
    low, high = torch.tensor(bounds, dtype=torch.float64, device=t.device)
    return torch.lerp(low, high, t)


def _curve_of(
    doubt: Tensor, accurate: Tensor, bounds: Bounds | None, ranks: bool, points: int
) -> PAvgPUCurve:
    if ranks:
        doubt, bounds = mid_ranks(doubt), (0.0, 1.0)
    bounds = bounds or (float(doubt.min()), float(doubt.max()))
    return _curve(_count(doubt, accurate, bounds, points), bounds)


def _curve(counts: Tensor, bounds: Bounds) -> PAvgPUCurve:
    certain = counts.cumsum(1)  # (2, points): accurate, inaccurate
    accurate, inaccurate = certain
    uncertain = counts.sum(1, keepdim=True) - certain
    at = Certainty(accurate, uncertain[0], inaccurate, uncertain[1])
    t = torch.linspace(0, 1, len(accurate), dtype=torch.float64, device=counts.device)
    return PAvgPUCurve(
        t,
        _thresholds(t, bounds),
        at.accurate_given_certain,
        at.uncertain_given_inaccurate,
        at.pavgpu,
    )
