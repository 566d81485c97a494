"""Every metric with data and a reference: scikit-learn, scipy, or the definition written naively.

Probabilities are multiples of 1/20, so that entropies and confidences tie and lie on edges of bins.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from scipy.integrate import simpson
from scipy.special import logsumexp, ndtr
from sklearn import metrics as sk
from torch import Tensor
from torch.distributions import Normal
from torchmetrics import Metric

from dubio import metrics

ROWS, CLASSES, VOID = 60, 4, 255


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def coarse(*shape: int, seed: int) -> Tensor:
    """Probabilities in multiples of 1/20, classes last."""
    raw = torch.rand(*shape, generator=seeded(seed)).square()
    steps = (20 * raw / raw.sum(-1, keepdim=True)).floor()
    steps[..., 0] += 20 - steps.sum(-1)
    return steps.double() / 20


def labels_for(probabilities: Tensor, seed: int) -> Tensor:
    """Labels that are right about two times in three."""
    generator = seeded(seed)
    best = probabilities.argmax(-1)
    other = torch.randint(probabilities.shape[-1], best.shape, generator=generator)
    return torch.where(torch.rand(best.shape, generator=generator) < 0.6, best, other)


P = coarse(ROWS, CLASSES, seed=0)
Y = labels_for(P, seed=1)

MAPS = coarse(ROWS // 10, 5, 7, 3, seed=2)  # images of 5 x 7 pixels
LABELS = labels_for(MAPS, seed=3)
LABELS[torch.rand(LABELS.shape, generator=seeded(4)) < 0.2] = VOID
LABELS[1] = VOID
LABELS[2, :2, :2] = VOID  # a patch without labels
LABELS[3].clamp_(max=1)  # an image without a class
MAPS = MAPS.movedim(-1, 1)  # (B, K, H, W)

MEAN = torch.randn(7, ROWS, 2, generator=seeded(5), dtype=torch.float64)
STD = 0.3 + torch.rand(7, ROWS, 2, generator=seeded(6), dtype=torch.float64)
TARGET = 1.3 * torch.randn(ROWS, 2, generator=seeded(7), dtype=torch.float64)
TARGET[0, 0] = MEAN[2, 0, 0]  # a tie with a draw

SCORES = torch.randn(ROWS, 30, generator=seeded(8), dtype=torch.float64)
KIND = torch.rand(ROWS, 30, generator=seeded(9))
HELD_OUT, FOLD_IN = KIND < 0.3, KIND > 0.8
HELD_OUT[5] = False  # a user with nothing to find
HELD_OUT[6] = ~FOLD_IN[6]  # and one with much

INSIDE = (8 * torch.rand(ROWS, generator=seeded(10), dtype=torch.float64)).round()
OUTSIDE = (3 + 8 * torch.rand(ROWS, generator=seeded(11), dtype=torch.float64)).round()


@dataclass(frozen=True)
class Case:
    """A metric of rows `0 … rows`; `part` gives the arguments of update for some of them."""

    name: str
    metric: Callable[[], Metric]
    part: Callable[[slice], list[tuple[tuple[Any, ...], dict[str, Any]]]]
    function: Callable[..., Any]
    reference: Callable[[], Any]
    rows: int = ROWS

    def __str__(self) -> str:
        return self.name

    def feed(self, metric: Metric, *pieces: slice) -> Metric:
        for piece in pieces:
            for args, kwargs in self.part(piece):
                metric.update(*args, **kwargs)
        return metric


def numbers(value: Any) -> list[Tensor]:
    """A number or a curve as tensors that can be compared."""
    parts = value if isinstance(value, tuple) else (value,)
    return [torch.as_tensor(part, dtype=torch.float64) for part in parts]


def rows(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((P[piece], Y[piece]), {})]


def images(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((MAPS[piece], LABELS[piece]), {})]


def draws(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((MEAN[:, piece], TARGET[piece]), {})]


def mixture(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((Normal(MEAN[:, piece], STD[:, piece]), TARGET[piece]), {})]


def gaussian(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((Normal(MEAN[0, piece], STD[0, piece]), TARGET[piece]), {})]


def ends(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [(((MEAN[0, piece] - 1, MEAN[0, piece] + 1), TARGET[piece]), {})]


def users(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((SCORES[piece], HELD_OUT[piece]), {"fold_in": FOLD_IN[piece]})]


def groups(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((INSIDE[piece],), {"outside": False}), ((OUTSIDE[piece],), {"outside": True})]


# --- classification ---


def entropies(probabilities: Tensor) -> list[float]:
    return [
        -sum(x * math.log(x) for x in row if x > 0)
        for row in probabilities.reshape(-1, probabilities.shape[-1]).tolist()
    ]


def naive_bin(value: float, bins: int) -> int:
    """The bin (m/M, (m + 1)/M] of a value; the first also has 0."""
    edges = np.linspace(0, 1, bins + 1)
    return next(m for m in range(bins) if value <= edges[m + 1])


def naive_curve(
    position: list[float], shown: list[float], hits: list[bool], bins: int
) -> list[list[float]]:
    kept: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for where, value, hit in zip(position, shown, hits, strict=True):
        kept[naive_bin(where, bins)].append((value, hit))
    means = [[float(np.mean([c[i] for c in cell])) if cell else math.nan for cell in kept]
             for i in (0, 1)]  # fmt: skip
    return [*means, [len(cell) for cell in kept]]


def naive_reliability(bins: int) -> tuple[list[float], ...]:
    top = P.amax(1).tolist()
    return tuple(naive_curve(top, top, (P.argmax(1) == Y).tolist(), bins))


def naive_classwise(bins: int) -> tuple[np.ndarray[Any, Any], ...]:
    curves = [naive_curve(P[:, k].tolist(), P[:, k].tolist(), (k == Y).tolist(), bins)
              for k in range(CLASSES)]  # fmt: skip
    return tuple(np.array([curve[i] for curve in curves]) for i in range(3))


def naive_gaps(curve: Any) -> list[tuple[float, float]]:
    return [(abs(a - c), n) for c, a, n in zip(*curve, strict=True) if n]


def naive_ece(curve: Any) -> float:
    gaps = naive_gaps(curve)
    return sum(gap * n for gap, n in gaps) / sum(n for _, n in gaps)


def naive_ace(bins: int) -> float:
    """Tied probabilities share their labels, then pieces of equal mass."""
    gaps = []
    for k in range(CLASSES):
        p, hit = P[:, k].numpy(), (k == Y).double().numpy()
        shared = np.array([hit[p == value].mean() for value in p])
        order = np.argsort(p)
        for piece in np.array_split(order, bins):
            gaps.append(abs(shared[piece].mean() - p[piece].mean()))
    return float(np.mean(gaps))


def naive_by_entropy(bins: int) -> tuple[list[float], ...]:
    h = entropies(P)
    hits = (P.argmax(1) == Y).tolist()
    return tuple(naive_curve([x / math.log(CLASSES) for x in h], h, hits, bins))


# --- uncertainty ---


def naive_patches(window: int, stride: int) -> tuple[list[float], list[bool]]:
    """Mean entropy and majority of correct pixels, patch by patch and pixel by pixel."""
    doubts, hits = [], []
    probabilities = MAPS.movedim(1, -1)
    for image, truth in zip(probabilities, LABELS, strict=True):
        height, width = truth.shape
        down = range(0, max(1, height - window + stride), stride)
        across = range(0, max(1, width - window + stride), stride)
        for top in down:
            for left in across:
                h, right = [], []
                for i in range(top, min(top + window, height)):
                    for j in range(left, min(left + window, width)):
                        if truth[i, j] != VOID:
                            h.append(entropies(image[i, j])[0])
                            right.append(int(image[i, j].argmax()) == int(truth[i, j]))
                if h:
                    doubts.append(sum(h) / len(h))
                    hits.append(2 * sum(right) > len(right))
    return doubts, hits


def naive_pavgpu(
    doubts: list[float], hits: list[bool], points: int, bounds: tuple[float, float] | None = None
) -> tuple[list[float], ...]:
    low, high = bounds or (min(doubts), max(doubts))
    columns: list[tuple[float, ...]] = []
    for i in range(points):
        t = i / (points - 1)
        threshold = low + t * (high - low)
        sure = [i == points - 1 or (i > 0 and h <= threshold + 1e-12) for h in doubts]
        n = {(a, c): sum(x == a and y == c for x, y in zip(hits, sure, strict=True))
             for a in (True, False) for c in (True, False)}  # fmt: skip
        certain, wrong = n[True, True] + n[False, True], n[False, True] + n[False, False]
        columns.append((
            t, threshold,
            n[True, True] / certain if certain else math.nan,
            n[False, False] / wrong if wrong else math.nan,
            (n[True, True] + n[False, False]) / len(hits),
        ))  # fmt: skip
    return tuple(list(column) for column in zip(*columns, strict=True))


def naive_risk_coverage() -> tuple[list[float], ...]:
    """Whole groups of ties are accepted in order, the last one by its share."""
    doubts, wrong = np.round(entropies(P), 12), (P.argmax(1) != Y).double().numpy()
    coverage, risk, threshold = [], [], []
    for k in range(1, ROWS + 1):
        total, room = 0.0, k
        for value in np.unique(doubts):
            group = wrong[doubts == value]
            taken = min(room, len(group))
            total, room = total + taken * group.mean(), room - taken
            if room == 0:
                break
        coverage.append(k / ROWS)
        risk.append(total / k)
        threshold.append(value)
    return coverage, risk, threshold


def naive_separation(recall: float) -> tuple[float, float, float]:
    truth, score = np.r_[np.zeros(ROWS), np.ones(ROWS)], np.r_[INSIDE, OUTSIDE]
    false, true, _ = sk.roc_curve(truth, score, drop_intermediate=False)
    return (
        sk.roc_auc_score(truth, score),
        sk.average_precision_score(truth, score),
        false[true >= recall].min(),
    )


# --- regression ---


def each_target() -> list[tuple[int, int, float]]:
    return [(i, j, float(TARGET[i, j])) for i in range(ROWS) for j in range(2)]


def naive_lppd(mean: Tensor, std: Tensor) -> float:
    logs = stats.norm.logpdf(TARGET.numpy(), mean.numpy(), std.numpy()).sum(-1)  # (S, B)
    return float(np.mean(logsumexp(logs, axis=0) - math.log(len(logs))))


def mixture_cdf(x: Any, mean: Tensor, std: Tensor) -> Any:
    """At x `(*G, B, 2)`, of a mixture over the first axis of mean and std."""
    parts = [ndtr((x - m) / s) for m, s in zip(mean.numpy(), std.numpy(), strict=True)]
    return np.mean(parts, 0)


def integrated_crps(mean: Tensor, std: Tensor) -> float:
    """The integral of (F(x) - 1[y <= x])^2 by Simpson's rule, on either side of y."""
    step = np.linspace(0, 14, 1001)[:, None, None]
    below = simpson(mixture_cdf(TARGET.numpy() - step, mean, std) ** 2, dx=0.014, axis=0)
    above = simpson((1 - mixture_cdf(TARGET.numpy() + step, mean, std)) ** 2, dx=0.014, axis=0)
    return float(np.mean(below + above))


def naive_crps(fair: bool) -> float:
    found, count = [], len(MEAN)
    for i, j, y in each_target():
        x = MEAN[:, i, j].tolist()
        pairs = sum(abs(a - b) for a in x for b in x)
        norm = count * (count - 1) if fair else count**2
        found.append(sum(abs(a - y) for a in x) / count - pairs / (2 * norm))
    return float(np.mean(found))


def fair_mixture_crps() -> float:
    """E|X_t - y| - E|X_t - X_u| / 2 over pairs of different draws, by folded normals."""

    def absolute(m: Any, s: Any) -> Any:
        return stats.foldnorm.mean(np.abs(m) / s, scale=s)

    m, s, y, count = MEAN.numpy(), STD.numpy(), TARGET.numpy(), len(MEAN)
    pairs = [
        absolute(m[t] - m[u], np.hypot(s[t], s[u]))
        for t, u in itertools.permutations(range(count), 2)
    ]
    return float(np.mean(absolute(y - m, s)) - np.mean(pairs) / 2)


def naive_interval(level: float, kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    levels = [(1 - level) / 2, (1 + level) / 2]
    if kind == "draws":
        low, high = np.quantile(MEAN.numpy(), levels, axis=0)
    elif kind == "gaussian":
        low, high = (stats.norm.ppf(q, MEAN[0].numpy(), STD[0].numpy()) for q in levels)
    else:
        low, high = MEAN[0].numpy() - 1, MEAN[0].numpy() + 1
    return low, high


def naive_coverage(level: float, kind: str) -> float:
    low, high = naive_interval(level, kind)
    inside = [low[i, j] <= y <= high[i, j] for i, j, y in each_target()]
    return float(np.mean(inside))


def naive_winkler(level: float, kind: str) -> float:
    low, high = naive_interval(level, kind)
    scores = []
    for i, j, y in each_target():
        miss = max(low[i, j] - y, y - high[i, j], 0.0)
        scores.append(high[i, j] - low[i, j] + 2 / (1 - level) * miss)
    return float(np.mean(scores))


def naive_quantile_curve(reached: list[float], levels: int) -> tuple[list[float], list[float]]:
    expected = [q / (levels + 1) for q in range(1, levels + 1)]
    return expected, [float(np.mean([u <= q for u in reached])) for q in expected]


def mixture_levels() -> list[float]:
    reached: list[float] = mixture_cdf(TARGET.numpy(), MEAN, STD).ravel().tolist()
    return reached


def draw_levels() -> list[float]:
    levels = []
    for i, j, y in each_target():
        rank = sum(0.5 if x == y else float(x < y) for x in MEAN[:, i, j].tolist())
        levels.append((rank + 0.5) / (len(MEAN) + 1))
    return levels


# --- images and items ---


def pixels() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    known = LABELS != VOID
    return LABELS[known].numpy(), MAPS.argmax(1)[known].numpy()


def naive_image_iou() -> float:
    means = []
    for truth, guess in zip(LABELS, MAPS.argmax(1), strict=True):
        known = truth != VOID
        if known.any():
            t, g = truth[known].numpy(), guess[known].numpy()
            means.append(sk.jaccard_score(t, g, average="macro"))  # classes in either
    return float(np.mean(means))


def naive_ranking(cutoff: int) -> tuple[float, float]:
    recalls, gains = [], []
    for score, wanted, seen in zip(SCORES, HELD_OUT, FOLD_IN, strict=True):
        want = {int(i) for i in wanted.nonzero()}
        if not want:
            continue
        order = [int(i) for i in score.argsort(descending=True) if not seen[i]][:cutoff]
        recalls.append(len(want & set(order)) / min(cutoff, len(want)))
        gain = sum(1 / math.log2(rank + 2) for rank, item in enumerate(order) if item in want)
        best = sum(1 / math.log2(rank + 2) for rank in range(min(cutoff, len(want))))
        gains.append(gain / best)
    return float(np.mean(recalls)), float(np.mean(gains))


def split_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_, **__: function(INSIDE, OUTSIDE)


IMAGES = len(MAPS)
CASES = [
    Case("accuracy", metrics.Accuracy, rows, metrics.accuracy,
         lambda: sk.accuracy_score(Y, P.argmax(1))),
    Case("nll", metrics.NLL, lambda s: [((P[s] * 0.99 + 0.0025, Y[s]), {})], metrics.nll,
         lambda: sk.log_loss(Y, P * 0.99 + 0.0025, labels=range(CLASSES))),
    Case("brier", metrics.Brier, rows, metrics.brier,
         lambda: sk.brier_score_loss(Y, P, labels=range(CLASSES), scale_by_half=False)),
    Case("brier of pixels", lambda: metrics.Brier(void=VOID), images,
         lambda p, y: metrics.brier(p, y, void=VOID),
         lambda: sk.brier_score_loss(pixels()[0], MAPS.movedim(1, -1)[LABELS != VOID].numpy(),
                                     labels=range(3), scale_by_half=False), IMAGES),
    Case("reliability", lambda: metrics.Reliability(bins=10), rows,
         lambda p, y: metrics.reliability(p, y, bins=10), lambda: naive_reliability(10)),
    Case("classwise reliability", lambda: metrics.ClasswiseReliability(CLASSES, bins=10), rows,
         lambda p, y: metrics.classwise_reliability(p, y, bins=10), lambda: naive_classwise(10)),
    Case("ece", lambda: metrics.ECE(bins=10), rows, lambda p, y: metrics.ece(p, y, bins=10),
         lambda: naive_ece(naive_reliability(10))),
    Case("mce", lambda: metrics.MCE(bins=10), rows, lambda p, y: metrics.mce(p, y, bins=10),
         lambda: max(gap for gap, _ in naive_gaps(naive_reliability(10)))),
    Case("classwise ece", lambda: metrics.ClasswiseECE(CLASSES, bins=10), rows,
         lambda p, y: metrics.classwise_ece(p, y, bins=10),
         lambda: np.mean([naive_ece([part[k] for part in naive_classwise(10)])
                          for k in range(CLASSES)])),
    Case("ace", lambda: metrics.ACE(bins=7), rows, lambda p, y: metrics.ace(p, y, bins=7),
         lambda: naive_ace(7)),
    Case("accuracy by entropy", lambda: metrics.AccuracyByEntropy(bins=8), rows,
         lambda p, y: metrics.accuracy_by_entropy(p, y, bins=8), lambda: naive_by_entropy(8)),
    Case("rmse", metrics.RMSE, lambda s: [((MEAN[0, s], TARGET[s]), {})], metrics.rmse,
         lambda: math.sqrt(sk.mean_squared_error(TARGET, MEAN[0]))),
    Case("lppd", metrics.LPPD, mixture, metrics.lppd, lambda: naive_lppd(MEAN, STD)),
    Case("lppd of a Gaussian", metrics.LPPD, gaussian, metrics.lppd,
         lambda: naive_lppd(MEAN[:1], STD[:1])),
    Case("crps of draws", metrics.CRPS, draws, metrics.crps, lambda: naive_crps(fair=False)),
    Case("fair crps of draws", lambda: metrics.CRPS(fair=True), draws,
         lambda p, y: metrics.crps(p, y, fair=True), lambda: naive_crps(fair=True)),
    Case("crps", metrics.CRPS, mixture, metrics.crps, lambda: integrated_crps(MEAN, STD)),
    Case("fair crps", lambda: metrics.CRPS(fair=True), mixture,
         lambda p, y: metrics.crps(p, y, fair=True), fair_mixture_crps),
    Case("crps of a Gaussian", metrics.CRPS, gaussian, metrics.crps,
         lambda: integrated_crps(MEAN[:1], STD[:1])),
    Case("interval coverage of draws", lambda: metrics.IntervalCoverage(level=0.6), draws,
         lambda p, y: metrics.interval_coverage(p, y, level=0.6),
         lambda: naive_coverage(0.6, "draws")),
    Case("interval coverage", lambda: metrics.IntervalCoverage(level=0.8), gaussian,
         lambda p, y: metrics.interval_coverage(p, y, level=0.8),
         lambda: naive_coverage(0.8, "gaussian")),
    Case("interval score of ends", lambda: metrics.IntervalScore(level=0.8), ends,
         lambda p, y: metrics.interval_score(p, y, level=0.8), lambda: naive_winkler(0.8, "ends")),
    Case("interval score", lambda: metrics.IntervalScore(level=0.8), gaussian,
         lambda p, y: metrics.interval_score(p, y, level=0.8),
         lambda: naive_winkler(0.8, "gaussian")),
    Case("interval score of draws", lambda: metrics.IntervalScore(level=0.6), draws,
         lambda p, y: metrics.interval_score(p, y, level=0.6),
         lambda: naive_winkler(0.6, "draws")),
    Case("quantile calibration", metrics.QuantileCalibration, mixture,
         metrics.quantile_calibration, lambda: naive_quantile_curve(mixture_levels(), 19)),
    Case("quantile calibration of draws", lambda: metrics.QuantileCalibration(levels=10), draws,
         lambda p, y: metrics.quantile_calibration(p, y, levels=10),
         lambda: naive_quantile_curve(draw_levels(), 10)),
    Case("quantile calibration rmse", metrics.QuantileCalibrationRMSE, mixture,
         metrics.quantile_calibration_rmse,
         lambda: np.sqrt(np.mean(np.subtract(*naive_quantile_curve(mixture_levels(), 19)) ** 2))),
    Case("global accuracy", lambda: metrics.GlobalAccuracy(3, void=VOID), images,
         lambda p, y: metrics.global_accuracy(p, y, 3, void=VOID),
         lambda: sk.accuracy_score(*pixels()), IMAGES),
    Case("class iou", lambda: metrics.ClassIoU(3, void=VOID), images,
         lambda p, y: metrics.class_iou(p, y, 3, void=VOID),
         lambda: sk.jaccard_score(*pixels(), average=None), IMAGES),
    Case("mean iou", lambda: metrics.MeanIoU(3, void=VOID), images,
         lambda p, y: metrics.mean_iou(p, y, 3, void=VOID),
         lambda: sk.jaccard_score(*pixels(), average="macro"), IMAGES),
    Case("image iou", lambda: metrics.ImageIoU(3, void=VOID), images,
         lambda p, y: metrics.image_iou(p, y, 3, void=VOID), naive_image_iou, IMAGES),
    Case("pavgpu", lambda: metrics.PAvgPU(points=12), rows,
         lambda p, y: metrics.pavgpu(p, y, points=12),
         lambda: naive_pavgpu(entropies(P), (P.argmax(1) == Y).tolist(), 12)),
    Case("pavgpu in bounds", lambda: metrics.PAvgPU(points=8, bounds=(0.3, 1.1)), rows,
         lambda p, y: metrics.pavgpu(p, y, points=8, bounds=(0.3, 1.1)),
         lambda: naive_pavgpu(entropies(P), (P.argmax(1) == Y).tolist(), 8, (0.3, 1.1))),
    Case("pavgpu of pixels", lambda: metrics.PAvgPU(points=9, void=VOID), images,
         lambda p, y: metrics.pavgpu(p, y, points=9, void=VOID),
         lambda: naive_pavgpu(*naive_patches(1, 1), 9), IMAGES),
    Case("pavgpu of patches", lambda: metrics.PAvgPU(points=9, window=2, void=VOID), images,
         lambda p, y: metrics.pavgpu(p, y, points=9, window=2, void=VOID),
         lambda: naive_pavgpu(*naive_patches(2, 2), 9), IMAGES),
    Case("pavgpu of a sliding window",
         lambda: metrics.PAvgPU(points=9, window=3, stride=1, void=VOID), images,
         lambda p, y: metrics.pavgpu(p, y, points=9, window=3, stride=1, void=VOID),
         lambda: naive_pavgpu(*naive_patches(3, 1), 9), IMAGES),
    Case("risk coverage", metrics.RiskCoverage, rows, metrics.risk_coverage, naive_risk_coverage),
    Case("aurc", metrics.AURC, rows, metrics.aurc, lambda: np.mean(naive_risk_coverage()[1])),
    Case("accuracy at coverage", lambda: metrics.AccuracyAtCoverage(0.72), rows,
         lambda p, y: metrics.accuracy_at_coverage(p, y, 0.72),
         lambda: 1 - naive_risk_coverage()[1][math.ceil(0.72 * ROWS) - 1]),
    Case("separation", metrics.OutOfDistribution, groups, split_groups(metrics.separation),
         lambda: naive_separation(0.95)),
    Case("recall", lambda: metrics.Recall(10), users,
         lambda p, y, fold_in: metrics.recall_at(p, y, 10, fold_in=fold_in),
         lambda: naive_ranking(10)[0]),
    Case("ndcg", lambda: metrics.NDCG(10), users,
         lambda p, y, fold_in: metrics.ndcg_at(p, y, 10, fold_in=fold_in),
         lambda: naive_ranking(10)[1]),
]  # fmt: skip
