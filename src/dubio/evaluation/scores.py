"""All metrics that fit: one set of them for labels, one for numbers, filled batch by batch."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torchmetrics import Metric

from dubio import metrics
from dubio.predictive.predictive import Predictive

INTERVALS = (0.5, 0.9, 0.95)
COVERAGES = (0.8, 0.9, 0.95)


@final
@dataclass(frozen=True)
class Measure:
    """The meaning of a metric.

    Attributes:
        title: Its name for readers.
        ideal: The value that is best: infinite, minus infinite, or one to be near to.
    """

    title: str
    ideal: float

    @property
    def wish(self) -> str:
        """The better direction, in a word."""
        if math.isfinite(self.ideal) and self.ideal != 0:
            return f"near {self.ideal:g}"
        return "higher" if self.ideal > 0 else "lower"

    def distance(self, value: float) -> float:
        """Return how far from the ideal, to compare values by."""
        if math.isfinite(self.ideal):
            return abs(value - self.ideal)
        return -value if self.ideal > 0 else value


MEASURES = {
    "accuracy": Measure("accuracy", math.inf),
    "nll": Measure("negative log-likelihood (nats)", -math.inf),
    "brier": Measure("Brier score", -math.inf),
    "ece": Measure("expected calibration error", 0),
    "mce": Measure("maximum calibration error", 0),
    "classwise_ece": Measure("classwise calibration error", 0),
    "ace": Measure("adaptive calibration error", 0),
    "pavgpu": Measure("PAvgPU, mean over thresholds", math.inf),
    "aurc": Measure("area under risk–coverage", -math.inf),
    **{
        f"accuracy_at_{share:g}": Measure(f"accuracy on the surest {share:.0%}", math.inf)
        for share in COVERAGES
    },
    "rmse": Measure("root mean squared error", -math.inf),
    "lppd": Measure("log predictive density (nats)", math.inf),
    "crps": Measure("CRPS", -math.inf),
    **{
        f"coverage_{level:g}": Measure(f"coverage of {level:.0%} intervals", level)
        for level in INTERVALS
    },
    "interval_score_0.95": Measure("score of 95% intervals", -math.inf),
    "quantile_calibration_rmse": Measure("RMSE of quantile calibration", 0),
    "absolute_aurc": Measure("area under absolute error–coverage", -math.inf),
    **{
        f"foreign_{score}_{kind}": Measure(f"foreign inputs by {title}: {name}", ideal)
        for score, title in (
            ("entropy", "entropy"),
            ("mutual_information", "mutual information"),
            ("std", "standard deviation"),
        )
        for kind, name, ideal in (
            ("auroc", "AUROC", math.inf),
            ("aupr", "AUPR", math.inf),
            ("fpr95", "FPR95", -math.inf),
        )
    },
}


class EvaluationScores(ABC):
    """All metrics of one way to ask the network."""

    def __init__(self) -> None:
        self.foreign: dict[str, metrics.OutOfDistribution] = {}

    def update(self, p: Predictive, y: Tensor) -> None:
        """Count a batch in."""
        for metric in self._metrics():
            metric.update(p, y)
        self._score(p, outside=False)

    def update_foreign(self, p: Predictive) -> None:
        """Count a batch of foreign inputs in."""
        self._score(p, outside=True)

    def numbers(self) -> dict[str, float]:
        """Return all values, by the names of `MEASURES`."""
        found = self._own_numbers()
        for name, metric in self.foreign.items():
            if metric.outside:
                separation = metric.compute()
                found[f"foreign_{name}_auroc"] = separation.auroc
                found[f"foreign_{name}_aupr"] = separation.aupr
                found[f"foreign_{name}_fpr95"] = separation.fpr
        return {name: float(value) for name, value in found.items()}

    def _score(self, p: Predictive, outside: bool) -> None:
        for name, score in self._doubts(p).items():
            metric = self.foreign.setdefault(name, metrics.OutOfDistribution())
            metric.update(score.flatten(1).mean(1) if score.ndim > 1 else score, outside=outside)

    @abstractmethod
    def _metrics(self) -> list[Metric]:
        """Return the metrics of predictions and targets."""

    @abstractmethod
    def _doubts(self, p: Predictive) -> dict[str, Tensor]:
        """Return scores that should be larger for out-of-distribution inputs."""

    @abstractmethod
    def _own_numbers(self) -> dict[str, Tensor]:
        """Return values without those of foreign inputs."""


@final
class LabelScores(EvaluationScores):
    """Metrics of predicted labels.

    Args:
        num_classes: K.
        bounds: The smallest and largest entropy of validation data, for PAvgPU.
    """

    def __init__(self, num_classes: int, bounds: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.accuracy, self.nll, self.brier = metrics.Accuracy(), metrics.NLL(), metrics.Brier()
        self.reliability = metrics.Reliability()
        self.classwise_ece, self.ace = metrics.ClasswiseECE(num_classes), metrics.ACE()
        self.accuracy_by_entropy = metrics.AccuracyByEntropy()
        self.pavgpu = metrics.PAvgPU(bounds=bounds)
        self.risk_coverage = metrics.RiskCoverage()

    def _metrics(self) -> list[Metric]:
        return [
            self.accuracy, self.nll, self.brier, self.reliability, self.classwise_ece, self.ace,
            self.accuracy_by_entropy, self.pavgpu, self.risk_coverage,
        ]  # fmt: skip

    def _doubts(self, p: Predictive) -> dict[str, Tensor]:
        if p.num_draws == 1:
            return {"entropy": p.entropy}
        return {"entropy": p.entropy, "mutual_information": p.mutual_information}

    def _own_numbers(self) -> dict[str, Tensor]:
        reliability, risk = self.reliability.compute(), self.risk_coverage.compute()
        return {
            "accuracy": self.accuracy.compute(),
            "nll": self.nll.compute(),
            "brier": self.brier.compute(),
            "ece": reliability.expected_error,
            "mce": reliability.max_error,
            "classwise_ece": self.classwise_ece.compute(),
            "ace": self.ace.compute(),
            "pavgpu": self.pavgpu.compute().mean,
            "aurc": risk.aurc,
            **{f"accuracy_at_{share:g}": risk.accuracy_at(share) for share in COVERAGES},
        }

    def entropies(self) -> dict[str, Tensor]:
        """Return entropies of right and wrong answers, and of foreign inputs if there are."""
        doubts, wrong = self.risk_coverage.kept("doubts"), self.risk_coverage.kept("losses").bool()
        groups = {"right": doubts[~wrong], "wrong": doubts[wrong]}
        if self.foreign["entropy"].outside:
            groups["foreign"] = self.foreign["entropy"].kept("outside")
        return {name: group for name, group in groups.items() if len(group)}


@final
class NumberScores(EvaluationScores):
    """Metrics of predicted real numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.rmse, self.lppd, self.crps = metrics.RMSE(), metrics.LPPD(), metrics.CRPS()
        self.coverage = {level: metrics.IntervalCoverage(level=level) for level in INTERVALS}
        self.interval_score = metrics.IntervalScore(level=0.95)
        self.quantiles = metrics.QuantileCalibration()
        self._doubts_kept: list[Tensor] = []
        self._errors_kept: list[Tensor] = []

    def update(self, p: Predictive, y: Tensor) -> None:
        """Count a batch in."""
        super().update(p, y)
        self._doubts_kept.append(p.std.flatten())
        self._errors_kept.append((p.mean - y).abs().flatten())

    def risk_coverage(self) -> metrics.RiskCoverageCurve:
        """Return the mean absolute error of the targets with the smallest standard deviations."""
        return metrics.risk_coverage_of(torch.cat(self._doubts_kept), torch.cat(self._errors_kept))

    def _metrics(self) -> list[Metric]:
        return [
            self.rmse, self.lppd, self.crps, *self.coverage.values(), self.interval_score,
            self.quantiles,
        ]  # fmt: skip

    def _doubts(self, p: Predictive) -> dict[str, Tensor]:
        return {"std": p.std}

    def _own_numbers(self) -> dict[str, Tensor]:
        return {
            "rmse": self.rmse.compute(),
            "lppd": self.lppd.compute(),
            "crps": self.crps.compute(),
            **{f"coverage_{level:g}": m.compute() for level, m in self.coverage.items()},
            "interval_score_0.95": self.interval_score.compute(),
            "quantile_calibration_rmse": self.quantiles.compute().rmse,
            "absolute_aurc": self.risk_coverage().aurc,
        }
