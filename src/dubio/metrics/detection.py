"""Detection: does a score tell foreign inputs from familiar ones, or wrong answers from right ones?

Foreign inputs, or wrong answers, are the positives, and should score higher. Any real scores will
do, on any scale.
"""

import math
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from dubio.metrics.reading import Classifiable, check_numbers, read_classified
from dubio.metrics.states import KeptCases, check_counted
from dubio.metrics.ties import mid_ranks
from dubio.predictive.predictive import Predictive


class Separation(NamedTuple):
    """How well a score separates foreign from familiar inputs, or wrong from right answers.

    Attributes:
        auroc: The probability that a foreign input scores higher than a familiar one; ties count
            half. 0.5 is chance.
        aupr: The area under precision over recall, in steps (average precision). Chance is the
            share of foreign inputs.
        fpr: The smallest share of familiar inputs that is flagged together with the wanted share of
            foreign ones; FPR95 for 95 %.
    """

    auroc: Tensor
    aupr: Tensor
    fpr: Tensor


def separation(
    inside: Predictive | Tensor, outside: Predictive | Tensor, *, recall: float = 0.95
) -> Separation:
    """Return AUROC, AUPR and the false-positive rate at a recall.

    A threshold flags all scores that reach it, so tied scores are flagged together. To make
    familiar inputs the positives (AUPR-in), swap the two and negate both.

    Args:
        inside: Scores of familiar inputs, or a `Predictive` of labels, whose entropy is used.
        outside: The same for foreign inputs.
        recall: The share of foreign inputs to flag.
    """
    _check_recall(recall)
    return _separate(_scores(inside, "inside"), _scores(outside, "outside"), recall)


@final
class OutOfDistribution(KeptCases):
    """`separation` over batches and processes; keeps 8 bytes for every score."""

    higher_is_better = True

    def __init__(self, *, recall: float = 0.95, **kwargs: Any) -> None:
        super().__init__("inside", "outside", **kwargs)
        _check_recall(recall)
        self.recall = recall

    def update(self, score: Predictive | Tensor, *, outside: bool) -> None:
        """Add a batch of inputs that are all foreign or all familiar."""
        name = "outside" if outside else "inside"
        self.keep(**{name: _scores(score, name)})

    def compute(self) -> Separation:
        """Return AUROC, AUPR and the false-positive rate."""
        return _separate(self.kept("inside"), self.kept("outside"), self.recall)


def error_detection(
    prediction: Classifiable,
    target: Tensor,
    *,
    uncertainty: Tensor | None = None,
    void: int | None = None,
    recall: float = 0.95,
) -> Separation:
    """Measure how well uncertainty separates wrong from right answers (Hendrycks and Gimpel 2017).

    Its `auroc` is the probability that a wrong answer is more uncertain than a right one. All three
    numbers are NaN if every answer is right, or every answer wrong. `recall` is the share of wrong
    answers to flag.
    """
    _check_recall(recall)
    return _separate_errors(*_judge(prediction, target, uncertainty, void), recall)


@final
class ErrorDetection(KeptCases):
    """`error_detection` over batches and processes; keeps 16 bytes for every case."""

    higher_is_better = True

    def __init__(self, *, void: int | None = None, recall: float = 0.95, **kwargs: Any) -> None:
        super().__init__("doubts", "hits", **kwargs)
        _check_recall(recall)
        self.void, self.recall = void, recall

    def update(
        self, prediction: Classifiable, target: Tensor, uncertainty: Tensor | None = None
    ) -> None:
        """Add a batch."""
        doubts, hits = _judge(prediction, target, uncertainty, self.void)
        self.keep(doubts=doubts, hits=hits)

    def compute(self) -> Separation:
        """Return AUROC, AUPR and the false-positive rate."""
        return _separate_errors(self.kept("doubts"), self.kept("hits").bool(), self.recall)


def _check_recall(recall: float) -> None:
    if not 0 < recall <= 1:
        raise ValueError(f"recall: expected a share in (0, 1], got {recall}; 0.95 is common")


def _scores(score: Predictive | Tensor, name: str) -> Tensor:
    if isinstance(score, Predictive):
        score = score.entropy
    return check_numbers(score, name).double().flatten()


def _judge(
    prediction: Classifiable, target: Tensor, uncertainty: Tensor | None, void: int | None
) -> tuple[Tensor, Tensor]:
    """Return the uncertainty of every case, and whether it is accurate: `(N,)`."""
    seen = read_classified(prediction, target, void)
    return seen.doubt(uncertainty)[seen.known].double(), seen.accurate[seen.known]


def _separate_errors(doubt: Tensor, accurate: Tensor, recall: float) -> Separation:
    check_counted(len(doubt), "error_detection")
    if bool(accurate.all()) or not bool(accurate.any()):
        undefined = doubt.new_tensor(math.nan)
        return Separation(undefined, undefined, undefined)
    ranks = mid_ranks(doubt)  # what differs by rounding alone is tied
    return _separate(ranks[accurate], ranks[~accurate], recall)


def _separate(inside: Tensor, outside: Tensor, recall: float) -> Separation:
    values, place = torch.unique(torch.cat([inside, outside]), return_inverse=True)
    familiar, foreign = (
        torch.bincount(places, minlength=len(values)).flip(0).double().cumsum(0)
        for places in place.split([len(inside), len(outside)])
    )  # flagged by each threshold, from the highest score down
    zero = torch.zeros(1, dtype=torch.float64, device=values.device)
    false_rate = torch.cat([zero, familiar / len(inside)])
    true_rate = torch.cat([zero, foreign / len(outside)])
    precision = foreign / (foreign + familiar)
    enough = true_rate >= recall - 1e-12
    return Separation(
        auroc=torch.trapezoid(true_rate, false_rate),
        aupr=(true_rate.diff() * precision).sum(),
        fpr=false_rate[enough][0],
    )
