"""Scores of class probabilities: accuracy, negative log-likelihood, Brier score."""

from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.metrics.reading import Classifiable, read_classified, read_soft
from dubio.metrics.states import Average, average
from dubio.predictive.predictive import Predictive


def accuracy(prediction: Classifiable, target: Tensor, *, void: int | None = None) -> Tensor:
    """Return the share of rows or pixels whose likeliest class is the label."""
    return average(_hits(prediction, target, void), "accuracy")


def nll(prediction: Classifiable, target: Tensor, *, void: int | None = None) -> Tensor:
    """Return the mean of -log p(y | x), in nats, where p is averaged over draws.

    For pixels it is the mean over pixels. A label of probability 0 has an infinite loss. For a
    `Predictive` of rows it uses `log_prob`, which is exact where p underflows. For soft labels,
    floats in the shape of the probabilities, it is the cross-entropy -sum_k y_k log p_k.
    """
    return average(_surprises(prediction, target, void), "nll")


def brier(prediction: Classifiable, target: Tensor, *, void: int | None = None) -> Tensor:
    """Return the Brier score, the mean of sum_k (p_k - 1[y = k])^2, between 0 and 2 (Brier 1950).

    For two classes that is twice the squared error of one probability. Soft labels y_k, floats in
    the shape of the probabilities, replace 1[y = k].
    """
    return average(_squares(prediction, target, void), "brier")


class _OfLabels(Average):
    """A mean over labelled places."""

    def __init__(self, *, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.void = void


@final
class Accuracy(_OfLabels):
    """`accuracy` over batches and processes."""

    higher_is_better = True

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        self.add(_hits(prediction, target, self.void))


@final
class NLL(_OfLabels):
    """`nll` over batches and processes."""

    higher_is_better = False

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        self.add(_surprises(prediction, target, self.void))


@final
class Brier(_OfLabels):
    """`brier` over batches and processes."""

    higher_is_better = False

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        self.add(_squares(prediction, target, self.void))


def _hits(prediction: Classifiable, target: Tensor, void: int | None) -> Tensor:
    seen = read_classified(prediction, target, void)
    return seen.accurate[seen.known]  # (N,)


def _surprises(prediction: Classifiable, target: Tensor, void: int | None) -> Tensor:
    if (soft := read_soft(prediction, target)) is not None:
        terms: Tensor = torch.special.xlogy(soft[1], soft[0])
        return -terms.sum(-1)  # (N,)
    seen = read_classified(prediction, target, void)
    if isinstance(prediction, Predictive) and target.ndim == 1 and void is None:
        return -prediction.log_prob(target)[seen.known]
    probabilities, labels = seen.rows
    return -probabilities.gather(-1, labels.unsqueeze(-1)).log()  # (N, 1)


def _squares(prediction: Classifiable, target: Tensor, void: int | None) -> Tensor:
    if (soft := read_soft(prediction, target)) is not None:
        return torch.square(soft[0].double() - soft[1]).sum(-1)  # (N,)
    probabilities, labels = read_classified(prediction, target, void).rows
    truth = F.one_hot(labels, probabilities.shape[-1])
    return torch.square(probabilities.double() - truth).sum(-1)  # (N,)
