"""Metrics of predictions and of their uncertainty, on torchmetrics.

Every metric has two forms. A function takes all data at once: `nll(p, y)`. A class of the same
concept is a `torchmetrics.Metric`, which adds up over batches and processes: `NLL()`. Both take a
`Predictive` or plain tensors, of half precision too, and give float64. Options of the function are
those of the class, which also takes torchmetrics' own.

What arguments mean, wherever they occur:

- `prediction`: of labels, a `Predictive` or probabilities `(B, K, *P)`, where `*P` are the places
  of one example, such as pixels; of numbers, a `Predictive`, a `torch.distributions.Normal`
  `(B, *E)` or, as a mixture, `(S, B, *E)`, or draws of the target `(S, B, *E)`.
- `target`: integer labels `(B, *P)`, or numbers `(B, *E)`.
- `void`: the label of places that do not count; that of ``Categorical(void=…)`` unless given.
- `num_classes`: K.
- `bins`: the number of bins of equal width, or of equally many cases for `ace`.
- `uncertainty`: what to use in place of the entropy, `(B, *P)`.
- `level`: the probability of an interval; `levels`: the number of quantiles.

One concept a file: `classification`, `calibration`, `adaptive`, `entropy`, `regression`,
`quantiles`, `segmentation`, `pavgpu`, `selective`, `detection`, `ranking`; `plots` draws curves and
label maps.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import torchmetrics  # noqa: F401
except ImportError as error:
    raise ImportError(
        "dubio.metrics: expected torchmetrics, got none; pip install 'dubio[metrics]'",
        name="torchmetrics",
    ) from error

from dubio.metrics.adaptive import ACE, ace
from dubio.metrics.calibration import (
    ECE,
    MCE,
    CalibrationRMSE,
    ClasswiseECE,
    ClasswiseReliability,
    Reliability,
    ReliabilityCurve,
    calibration_rmse,
    classwise_ece,
    classwise_reliability,
    ece,
    mce,
    reliability,
)
from dubio.metrics.classification import NLL, Accuracy, Brier, accuracy, brier, nll
from dubio.metrics.detection import (
    ErrorDetection,
    OutOfDistribution,
    Separation,
    error_detection,
    separation,
)
from dubio.metrics.entropy import AccuracyByEntropy, EntropyCurve, accuracy_by_entropy
from dubio.metrics.pavgpu import Certainty, PAvgPU, PAvgPUCurve, certainty, pavgpu
from dubio.metrics.quantiles import (
    QuantileCalibration,
    QuantileCalibrationRMSE,
    QuantileCurve,
    quantile_calibration,
    quantile_calibration_rmse,
)
from dubio.metrics.ranking import NDCG, Recall, ndcg_at, recall_at
from dubio.metrics.regression import (
    CRPS,
    LPPD,
    RMSE,
    IntervalCoverage,
    IntervalScore,
    crps,
    interval_coverage,
    interval_score,
    lppd,
    rmse,
)
from dubio.metrics.segmentation import (
    ClassIoU,
    GlobalAccuracy,
    ImageIoU,
    MeanIoU,
    class_iou,
    confusion,
    global_accuracy,
    image_iou,
    mean_iou,
)
from dubio.metrics.selective import (
    AURC,
    AccuracyAtCoverage,
    RiskCoverage,
    RiskCoverageCurve,
    accuracy_at_coverage,
    aurc,
    risk_coverage,
    risk_coverage_of,
)
from dubio.predictive.predictive import Interval

if TYPE_CHECKING:
    from dubio.metrics import plots as plots

__all__ = [
    "ACE",
    "AURC",
    "CRPS",
    "ECE",
    "LPPD",
    "MCE",
    "NDCG",
    "NLL",
    "RMSE",
    "Accuracy",
    "AccuracyAtCoverage",
    "AccuracyByEntropy",
    "Brier",
    "CalibrationRMSE",
    "Certainty",
    "ClassIoU",
    "ClasswiseECE",
    "ClasswiseReliability",
    "EntropyCurve",
    "ErrorDetection",
    "GlobalAccuracy",
    "ImageIoU",
    "Interval",
    "IntervalCoverage",
    "IntervalScore",
    "MeanIoU",
    "OutOfDistribution",
    "PAvgPU",
    "PAvgPUCurve",
    "QuantileCalibration",
    "QuantileCalibrationRMSE",
    "QuantileCurve",
    "Recall",
    "Reliability",
    "ReliabilityCurve",
    "RiskCoverage",
    "RiskCoverageCurve",
    "Separation",
    "accuracy",
    "accuracy_at_coverage",
    "accuracy_by_entropy",
    "ace",
    "aurc",
    "brier",
    "calibration_rmse",
    "certainty",
    "class_iou",
    "classwise_ece",
    "classwise_reliability",
    "confusion",
    "crps",
    "ece",
    "error_detection",
    "global_accuracy",
    "image_iou",
    "interval_coverage",
    "interval_score",
    "lppd",
    "mce",
    "mean_iou",
    "ndcg_at",
    "nll",
    "pavgpu",
    "quantile_calibration",
    "quantile_calibration_rmse",
    "recall_at",
    "reliability",
    "risk_coverage",
    "risk_coverage_of",
    "rmse",
    "separation",
]


def __getattr__(name: str) -> Any:
    if name == "plots":  # needs matplotlib, which metrics do not
        return import_module("dubio.metrics.plots")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
