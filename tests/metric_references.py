"""Data for metrics, and what is true of them: scikit-learn, scipy, or a definition done naively.

Probabilities are multiples of 1/20, so that entropies and confidences tie and lie on edges of bins.
"""

import itertools
import math
from typing import Any

import numpy as np
import torch
from scipy import stats
from scipy.integrate import simpson
from scipy.special import logsumexp, ndtr
from sklearn import metrics as sk
from torch import Tensor

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

MAPS = coarse(ROWS // 10, 5, 8, 3, seed=2)  # images of 5 x 8 pixels
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


def naive_calibration_rmse(bins: int, weighted: bool) -> float:
    """Over every probability of every pixel that is not void."""
    known = LABELS != VOID
    claimed, came_true = [], []
    for row, label in zip(MAPS.movedim(1, -1)[known].tolist(), LABELS[known].tolist(), strict=True):
        for k, probability in enumerate(row):
            claimed.append(probability)
            came_true.append(k == label)
    gaps = naive_gaps(naive_curve(claimed, claimed, came_true, bins))
    weights = [n if weighted else 1 for _, n in gaps]
    squares = [gap**2 for gap, _ in gaps]
    return math.sqrt(np.average(squares, weights=weights))


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


def naive_ranks(doubts: list[float]) -> list[float]:
    """Entropies are rounded, so that ties are ties."""
    h = [round(value, 12) for value in doubts]
    return [(sum(b < a for b in h) + sum(b == a for b in h) / 2) / len(h) for a in h]


def naive_error_detection(doubts: list[float], hits: list[bool], recall: float) -> list[float]:
    wrong, score = [not hit for hit in hits], np.round(doubts, 12)
    false, true, _ = sk.roc_curve(wrong, score, drop_intermediate=False)
    return [
        float(sk.roc_auc_score(wrong, score)),
        float(sk.average_precision_score(wrong, score)),
        float(false[true >= recall - 1e-12].min()),
    ]


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
