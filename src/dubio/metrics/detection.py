"""Out-of-distribution detection: does a score tell foreign inputs from familiar ones?

Foreign inputs are the positives: the larger the score, the more foreign. Any real scores will do,
on any scale.
"""

from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from dubio.metrics.reading import check_numbers
from dubio.metrics.states import Kept
from dubio.predictive.predictive import Predictive


class Separation(NamedTuple):
    """How well a score separates.

    Attributes:
        auroc: The probability that a foreign input scores higher than a familiar one; ties count
            half. 0.5 is chance.
        aupr: The area under precision over recall, in steps (average precision). Chance is the
            share of foreign inputs.
        fpr: The least share of familiar inputs that must be flagged to flag the wanted share of
            foreign ones; FPR95 for 95 %.
    """

    auroc: Tensor
    aupr: Tensor
    fpr: Tensor


def separation(
    inside: Predictive | Tensor, outside: Predictive | Tensor, *, recall: float = 0.95
) -> Separation:
    """AUROC, AUPR and the false-positive rate at a recall.

    A threshold flags all scores that reach it, so tied scores are flagged together. To make
    familiar inputs the positives (AUPR-in), swap the two and negate both.

    Args:
        inside: Scores of familiar inputs, or a `Predictive` of labels, whose entropy is taken.
        outside: The same of foreign inputs.
        recall: The share of foreign inputs to flag.
    """
    _check_recall(recall)
    return _separate(_scores(inside, "inside"), _scores(outside, "outside"), recall)


@final
class OutOfDistribution(Kept):
    """`separation` over batches and processes; keeps 8 bytes for every score."""

    higher_is_better = True

    def __init__(self, *, recall: float = 0.95, **kwargs: Any) -> None:
        super().__init__("inside", "outside", **kwargs)
        _check_recall(recall)
        self.recall = recall

    def update(self, score: Predictive | Tensor, *, outside: bool) -> None:
        """Adds a batch of inputs that are all foreign, or all familiar."""
        name = "outside" if outside else "inside"
        self.keep(**{name: _scores(score, name)})

    def compute(self) -> Separation:
        """The three numbers."""
        return _separate(self.kept("inside"), self.kept("outside"), self.recall)


def _check_recall(recall: float) -> None:
    if not 0 < recall <= 1:
        raise ValueError(f"recall: expected a share in (0, 1], got {recall}; 0.95 is common")


def _scores(score: Predictive | Tensor, name: str) -> Tensor:
    if isinstance(score, Predictive):
        score = score.entropy
    return check_numbers(score, name).double().flatten()


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
