"""Ranking of items for users, by the definitions of Liang et al. (2018).

Users' items are in two parts: fold-in items, which the model has seen, and held-out items, which it
should find. Fold-in items are never recommended. A user without held-out items has no score and is
left out.

Both scores take

- `prediction`: scores of all items `(B, items)`, or a `Predictive`, whose mean is taken. The order
  of equal scores is arbitrary.
- `held_out`: the items to be found, `(B, items)`: true, or not 0.
- `cutoff`: R, the number of items that are recommended.
- `fold_in`: the items that were seen, `(B, items)`.
"""

from typing import Any, final

import torch
from torch import Tensor

from dubio.metrics.counts import check_count
from dubio.metrics.reading import check_numbers, check_shape
from dubio.metrics.states import Average, average
from dubio.noise.float64 import with_float64
from dubio.predictive.predictive import Predictive
from dubio.ranks import ndcg, recall

ItemScores = Predictive | Tensor


def recall_at(
    prediction: ItemScores, held_out: Tensor, cutoff: int, *, fold_in: Tensor | None = None
) -> Tensor:
    """Return Recall@R: held-out items among the first R, over min(R, held-out items).

    It is the mean over users. The denominator makes 1 the best possible value, also for users with
    more than R held-out items.
    """
    return average(_recalls(prediction, held_out, cutoff, fold_in), "recall_at")


def ndcg_at(
    prediction: ItemScores, held_out: Tensor, cutoff: int, *, fold_in: Tensor | None = None
) -> Tensor:
    """Return NDCG@R: the sum over found items of 1/log2(rank + 1), over the best possible sum.

    It is the mean over users. Relevance is 0 or 1. The best possible ranking has min(R, held-out
    items) items at the top.
    """
    return average(_gains(prediction, held_out, cutoff, fold_in), "ndcg_at")


class _Ranking(Average):
    """A mean over users."""

    higher_is_better = True

    def __init__(self, cutoff: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _check_cutoff(cutoff)
        self.cutoff = cutoff


@final
class Recall(_Ranking):
    """`recall_at` over batches and processes."""

    def update(
        self, prediction: ItemScores, held_out: Tensor, fold_in: Tensor | None = None
    ) -> None:
        """Add a batch of users."""
        self.add(_recalls(prediction, held_out, self.cutoff, fold_in))


@final
class NDCG(_Ranking):
    """`ndcg_at` over batches and processes."""

    def update(
        self, prediction: ItemScores, held_out: Tensor, fold_in: Tensor | None = None
    ) -> None:
        """Add a batch of users."""
        self.add(_gains(prediction, held_out, self.cutoff, fold_in))


def _check_cutoff(cutoff: int) -> None:
    check_count(cutoff, 1, "cutoff", "20, 50 and 100 are common")


def _found(
    prediction: ItemScores, held_out: Tensor, cutoff: int, fold_in: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return which of the first R items `(B, R)` were held out, and their number `(B,)`."""
    _check_cutoff(cutoff)
    given = prediction.mean if isinstance(prediction, Predictive) else prediction
    scores = check_numbers(given, "prediction")
    if scores.ndim != 2:
        raise ValueError(
            f"prediction: expected scores (users, items), got shape {tuple(scores.shape)}; give "
            "every user a row"
        )
    check_shape(held_out, scores.shape, "held_out", "the scores")
    wanted = with_float64(held_out).bool()
    if fold_in is not None:
        check_shape(fold_in, scores.shape, "fold_in", "the scores")
        seen = with_float64(fold_in).bool()
        if bool((seen & wanted).any()):
            raise ValueError(
                f"fold_in: expected other items than held_out, got {int((seen & wanted).sum())} "
                "in both; split them"
            )
        scores = scores.masked_fill(seen, -torch.inf)
    users = wanted.any(1)
    best = scores[users].topk(min(cutoff, scores.shape[1])).indices
    return wanted[users].gather(1, best), wanted[users].sum(1)


def _recalls(
    prediction: ItemScores, held_out: Tensor, cutoff: int, fold_in: Tensor | None
) -> Tensor:
    return recall(*_found(prediction, held_out, cutoff, fold_in), cutoff)


def _gains(prediction: ItemScores, held_out: Tensor, cutoff: int, fold_in: Tensor | None) -> Tensor:
    return ndcg(*_found(prediction, held_out, cutoff, fold_in), cutoff)
