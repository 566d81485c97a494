"""Order of cases, with ties."""

import torch
from torch import Tensor


def sort_with_ties(score: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Sort values `(N,)` by rising score; equal scores share the mean of their values.

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


def mid_ranks(score: Tensor) -> Tensor:
    """Return the share of smaller scores plus half the share of equal ones: `(N,)`.

    They lie strictly between 0 and 1, and their mean is 1/2. No increasing function of the scores
    changes them. Scores that differ by rounding alone are equal. Both are in float64.
    """
    scores, order = score.sort()
    rounding = 4 * torch.finfo(torch.float64).eps * scores[1:].abs()
    steps = torch.cat([scores.new_zeros(1), (scores.diff() > rounding).double()])
    _, group, sizes = torch.unique_consecutive(
        steps.cumsum(0), return_inverse=True, return_counts=True
    )
    middle = (sizes.cumsum(0).double() - sizes / 2) / len(score)
    return torch.empty_like(score).scatter_(0, order, middle[group])
