"""Order, and what to do where it is not decided."""

import torch
from torch import Tensor


def sort_with_ties(score: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Sorts values `(N,)` by rising score; equal scores share the mean of their values.

    That is the expectation over all orders of equal scores, so nothing depends on the order in
    which rows came.

    Returns:
        The scores and the values, sorted.
    """
    scores, order = score.sort()
    _, group, sizes = torch.unique_consecutive(scores, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(sizes), dtype=torch.float64, device=score.device)
    sums.index_add_(0, group, value[order].double())
    return scores, (sums / sizes)[group]
