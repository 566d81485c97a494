"""`evaluate`: all metrics that fit, of the network with and without its noise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

from torch import nn

from dubio.evaluation.datasets import Data
from dubio.evaluation.errors import explained
from dubio.evaluation.predictors import Bounds, DatasetPredictor, need_targets
from dubio.evaluation.scores import EvaluationScores, LabelScores, NumberScores
from dubio.likelihoods import Likelihood
from dubio.predictive.predictive import Predictive


@final
@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`.

    Attributes:
        scores: The metrics of ``plain``, the network without noise, of ``draws``, and of both
            calibrated as ``plain_calibrated`` and ``draws_calibrated``.
        calibration: What was fitted on validation data: temperatures, or factors on the precision.
        rows: Number of rows.
        foreign_rows: Number of foreign rows.
        draws: Stochastic passes per row.
    """

    scores: Mapping[str, EvaluationScores]
    calibration: Mapping[str, Mapping[str, float]]
    rows: int
    foreign_rows: int
    draws: int

    @property
    def numbers(self) -> dict[str, dict[str, float]]:
        """Every metric, by its name and then by the kind of prediction."""
        columns = {name: scores.numbers() for name, scores in self.scores.items()}
        names = dict.fromkeys(metric for numbers in columns.values() for metric in numbers)
        return {
            metric: {name: found[metric] for name, found in columns.items() if metric in found}
            for metric in names
        }

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for scripts; non-finite numbers are None."""
        return {
            "rows": self.rows,
            "foreign_rows": self.foreign_rows,
            "draws": self.draws,
            "calibration": {name: dict(found) for name, found in self.calibration.items()},
            "metrics": {
                metric: {name: v if math.isfinite(v) else None for name, v in values.items()}
                for metric, values in self.numbers.items()
            },
        }


def evaluate(
    network: nn.Module,
    data: Data,
    likelihood: Likelihood,
    *,
    draws: int = 100,
    foreign: Data | None = None,
    validation: Data | None = None,
    batch_size: int = 256,
    seed: int = 0,
) -> Evaluation:
    """Evaluate a network: compute all metrics that fit its predictions of labels or numbers.

    Data are read a batch at a time. Memory grows by a few numbers per row, for curves that need all
    rows; with validation data, also by its probabilities or, for real targets, its draws.

    Args:
        network: The trained network; it is put into eval mode.
        data: The data to evaluate on, with targets.
        likelihood: The distribution of targets given outputs; decides between labels and numbers.
        draws: Number of stochastic passes.
        foreign: Out-of-distribution inputs; their targets are ignored.
        validation: Data to calibrate on: neither training data nor ``data``. They also set the
            range of thresholds of PAvgPU.
        batch_size: Rows at a time.
        seed: Seed of all noise.
    """
    predictor = DatasetPredictor(network, likelihood, draws, batch_size, seed)
    if validation is not None:
        predictor.calibrate(validation)
    scores: dict[str, EvaluationScores] = {}
    for answers, y in predictor.ask(data, stream=1):
        targets = need_targets(y, data)
        with explained(data.name):
            for name, p in answers.items():
                if name not in scores:
                    scores[name] = _scores_for(p, predictor.bounds.get(name))
                scores[name].update(p, targets)
    if foreign is not None:
        for answers, _ in predictor.ask(replace(foreign, y=None), stream=2):
            for name, p in answers.items():
                scores[name].update_foreign(p)
    return Evaluation(
        scores=scores,
        calibration={
            name: {key: float(value) for key, value in found.named_buffers()}
            for name, found in predictor.calibrations.items()
        },
        rows=len(data),
        foreign_rows=0 if foreign is None else len(foreign),
        draws=draws,
    )


def _scores_for(p: Predictive, bounds: Bounds | None) -> EvaluationScores:
    if not p.likelihood.discrete:
        return NumberScores()
    return LabelScores(p.likelihood.by_label(p.mean).shape[-1], bounds)
