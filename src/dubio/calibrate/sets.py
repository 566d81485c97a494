"""Conformal sets of labels."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from dubio.calibrate.conformal import Conformal, with_ties
from dubio.predictive.validation import Labels, known_rows, label_prediction, log_mean


@final
@dataclass(frozen=True)
class LabelSets:
    """Prediction sets: a set of labels for each row.

    Attributes:
        members: Which labels are in it, `(B, K)`.
    """

    members: Tensor

    @property
    def sizes(self) -> Tensor:
        """Number of labels in each set, `(B,)`; larger where the network is less certain."""
        return self.members.sum(-1)

    def contains(self, y: Tensor) -> Tensor:
        """Return whether labels are in their sets, `(B,)`."""
        rows, classes = self.members.shape
        if y.shape not in ((rows,), (rows, 1)) or not torch.equal(y, y.long().to(y.dtype)):
            raise ValueError(
                f"y: expected integer labels of shape {(rows,)}, one for each set, got {y.dtype} "
                f"of shape {tuple(y.shape)}; pass labels, not probabilities or one-hot rows"
            )
        if not bool(((y >= 0) & (y < classes)).all()):
            raise ValueError(
                f"y: expected labels from 0 to {classes - 1}, got {int(y.min())} to "
                f"{int(y.max())}; remove the rows of other classes"
            )
        return self.members.gather(-1, y.long().view(-1, 1)).squeeze(-1)


class _ConformalSets(Conformal):
    """Sets of all labels with a score up to a threshold."""

    @abstractmethod
    def _scores(self, logs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return how ill each label fits, `(B, K)`, from log probabilities."""

    def fit(self, p: Labels, y: Tensor, generator: torch.Generator | None = None) -> Self:
        """Take the threshold from validation data.

        Args:
            p: A prediction of one label a row, or class probabilities `(B, K)`.
            y: Labels.
            generator: Source of randomness, if the scores are randomised.
        """
        p = label_prediction(p)
        p.check_targets(y)
        logs, labels = known_rows(p, _one_label(log_mean(p)), y.reshape(-1))
        scores = self._scores(logs, generator)
        self._calibrate(scores.gather(-1, labels[:, None]).squeeze(-1))
        self._keep_sizes(p)
        return self

    def forward(self, p: Labels, generator: torch.Generator | None = None) -> LabelSets:
        """Return the sets of new rows."""
        p = label_prediction(p)
        logs = _one_label(log_mean(p))
        threshold = with_ties(self._known("threshold").to(logs.device), p.mean.dtype, 1.0)
        self._check_sizes(p)
        members = self._scores(logs, generator) <= threshold
        return LabelSets(members.to(p.mean.device))


@final
class LeastAmbiguousSets(_ConformalSets):
    """Conformal sets of all labels above one probability: the smallest sets on average.

    The score is −log q(y | x), which orders labels as 1 − q(y | x) does and does not round near 1
    (LAC or THR: Sadinle, Lei and Wasserman 2019). Easy rows are covered more often than hard ones,
    and a set may be empty if no label is likely enough.
    """

    def _scores(self, logs: Tensor, generator: torch.Generator | None) -> Tensor:
        return -logs


@final
class AdaptiveSets(_ConformalSets):
    """Adaptive prediction sets (APS): the likeliest labels up to a total probability.

    The score of a label is the probability of all likelier labels plus a random share of its own
    (Romano et al. 2020),

        s(x, y, u) = Σ_{k likelier than y} q(k | x) + u q(y | x),  u ~ U(0, 1).

    Sets grow with difficulty, so coverage is more even over easy and hard rows than with
    `LeastAmbiguousSets`, at the price of larger sets. Labels of equal probability are ordered by
    their number.

    Args:
        alpha: The wanted probability of a miss.
        randomised: If False, u = 1: deterministic and larger sets.
    """

    def __init__(self, alpha: float = 0.1, *, randomised: bool = True) -> None:
        super().__init__(alpha)
        self.register_buffer("randomised", torch.tensor(randomised))

    def _scores(self, logs: Tensor, generator: torch.Generator | None) -> Tensor:
        q, order = logs.exp().sort(dim=-1, descending=True, stable=True)  # (B, K)
        likelier = q.cumsum(-1) - q
        if bool(self.randomised):
            share = torch.rand(
                (len(q), 1), generator=generator, dtype=q.dtype, device=q.device
            )  # one a row: nested sets
            scores = likelier + share * q
        else:
            scores = likelier + q
        return torch.empty_like(scores).scatter(-1, order, scores)


def _one_label(logs: Tensor) -> Tensor:
    """Log probabilities `(B, K)` of the one label of each row."""
    rows, classes = logs.shape[0], logs.shape[-1]
    if logs.numel() != rows * classes:
        raise ValueError(
            f"p: expected one label a row, got probabilities {tuple(logs.shape)}; labels of one "
            "row are not exchangeable with those of another: conformalise a label of the row"
        )
    return logs.reshape(rows, classes)
