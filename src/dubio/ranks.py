"""Scores of a ranking, one for each user, from which of the first items were found.

All take

- ``found``: whether the item at rank 1, 2, … was one of those to be found, (B, R) or more ranks;
- ``wanted``: how many items there were to be found, (B,), at least 1;
- ``cutoff``: R, how many ranks count;

and give float64, (B,).
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from torch import Tensor

Rank: TypeAlias = Callable[[Tensor, Tensor, int], Tensor]


def recall(found: Tensor, wanted: Tensor, cutoff: int) -> Tensor:
    """Return items found over min(R, wanted), at best 1 (Liang et al. 2018, section 4.2)."""
    return _count(found, cutoff) / wanted.clamp(max=cutoff)


def recall_all(found: Tensor, wanted: Tensor, cutoff: int) -> Tensor:
    """Return items found, over all wanted, also if more than R (He et al. 2020, LightGCN)."""
    return _count(found, cutoff) / wanted


def precision(found: Tensor, wanted: Tensor, cutoff: int) -> Tensor:
    """Return items found, over R."""
    return _count(found, cutoff) / cutoff


def hit(found: Tensor, wanted: Tensor, cutoff: int) -> Tensor:
    """Return 1 if an item was found, else 0."""
    return found[:, :cutoff].any(1).double()


def reciprocal_rank(found: Tensor, wanted: Tensor, cutoff: int) -> Tensor:
    """Return 1/rank of the first item found, or 0."""
    inverse = 1 / _ranks(found, cutoff)
    return (found[:, :cutoff] * inverse).amax(1)


def ndcg(found: Tensor, wanted: Tensor, cutoff: int) -> Tensor:
    """Sum over items found of 1/log2(rank + 1), over that of min(R, wanted) items at the top."""
    inverse = 1 / torch.log2(_ranks(found, cutoff) + 1)
    gain = (found[:, :cutoff].double() * inverse).sum(1)
    ranks = torch.arange(1, cutoff + 1, dtype=torch.float64, device=found.device)
    return gain / (1 / torch.log2(ranks + 1)).cumsum(0)[wanted.clamp(max=cutoff) - 1]


RANKS: Final[dict[str, Rank]] = {
    "recall": recall,
    "recall_all": recall_all,
    "precision": precision,
    "hit": hit,
    "mrr": reciprocal_rank,
    "ndcg": ndcg,
}
"""By name."""


def _count(found: Tensor, cutoff: int) -> Tensor:
    return found[:, :cutoff].sum(1, dtype=torch.float64)


def _ranks(found: Tensor, cutoff: int) -> Tensor:
    ranks = min(cutoff, found.shape[1])
    return torch.arange(1, ranks + 1, dtype=torch.float64, device=found.device)
