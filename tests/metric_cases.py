"""Every metric with its data and its reference, in all forms that it can be given."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn import metrics as sk
from torch import Tensor
from torch.distributions import Normal
from torchmetrics import Metric

from dubio import metrics
from metric_references import (
    CLASSES,
    FOLD_IN,
    HELD_OUT,
    INSIDE,
    LABELS,
    MAPS,
    MEAN,
    OUTSIDE,
    ROWS,
    SCORES,
    STD,
    TARGET,
    VOID,
    P,
    Y,
    draw_levels,
    entropies,
    fair_mixture_crps,
    integrated_crps,
    mixture_levels,
    naive_ace,
    naive_by_entropy,
    naive_calibration_rmse,
    naive_classwise,
    naive_coverage,
    naive_crps,
    naive_ece,
    naive_error_detection,
    naive_gaps,
    naive_image_iou,
    naive_lppd,
    naive_patches,
    naive_pavgpu,
    naive_quantile_curve,
    naive_ranking,
    naive_ranks,
    naive_reliability,
    naive_risk_coverage,
    naive_separation,
    naive_winkler,
    pixels,
)


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
    return [((metrics.Interval(MEAN[0, piece] - 1, MEAN[0, piece] + 1), TARGET[piece]), {})]


def users(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((SCORES[piece], HELD_OUT[piece]), {"fold_in": FOLD_IN[piece]})]


def groups(piece: slice) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((INSIDE[piece],), {"outside": False}), ((OUTSIDE[piece],), {"outside": True})]


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
    Case("calibration rmse", lambda: metrics.CalibrationRMSE(void=VOID), images,
         lambda p, y: metrics.calibration_rmse(p, y, void=VOID),
         lambda: naive_calibration_rmse(10, weighted=True), IMAGES),
    Case("unweighted calibration rmse",
         lambda: metrics.CalibrationRMSE(bins=25, weighted=False, void=VOID), images,
         lambda p, y: metrics.calibration_rmse(p, y, bins=25, weighted=False, void=VOID),
         lambda: naive_calibration_rmse(25, weighted=False), IMAGES),
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
    Case("pavgpu of ranks", lambda: metrics.PAvgPU(points=12, ranks=True), rows,
         lambda p, y: metrics.pavgpu(p, y, points=12, ranks=True),
         lambda: naive_pavgpu(naive_ranks(entropies(P)), (P.argmax(1) == Y).tolist(), 12,
                              (0.0, 1.0))),
    Case("pavgpu of ranks of patches",
         lambda: metrics.PAvgPU(points=11, window=2, void=VOID, ranks=True), images,
         lambda p, y: metrics.pavgpu(p, y, points=11, window=2, void=VOID, ranks=True),
         lambda: naive_pavgpu(naive_ranks((patches := naive_patches(2, 2))[0]), patches[1], 11,
                              (0.0, 1.0)), IMAGES),
    Case("error detection", metrics.ErrorDetection, rows, metrics.error_detection,
         lambda: tuple(naive_error_detection(entropies(P), (P.argmax(1) == Y).tolist(), 0.95))),
    Case("error detection of pixels", lambda: metrics.ErrorDetection(void=VOID, recall=0.5), images,
         lambda p, y: metrics.error_detection(p, y, void=VOID, recall=0.5),
         lambda: tuple(naive_error_detection(*naive_patches(1, 1), 0.5)), IMAGES),
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
