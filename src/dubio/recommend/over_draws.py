"""Mean and spread of scores over draws, added up in place."""

from collections.abc import Iterable

import torch
from torch import Tensor


def mean_and_spread(draws: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over draws, by the recurrence of Welford (1962).

    Three tensors of the shape of a draw are held, however many draws there are.

    Args:
        draws: At least one tensor (B, I). The first becomes the mean: it is written into.

    Returns:
        The mean, and the standard deviation with the divisor ``draws − 1``, NaN for one draw.
    """
    mean, squares, count = torch.empty(0), torch.empty(0), 0
    for scores in draws:
        count += 1
        if count == 1:
            mean, squares = scores, torch.zeros_like(scores)
            continue
        change = scores.sub_(mean)
        mean.add_(change, alpha=1 / count)
        squares.addcmul_(change, change, value=(count - 1) / count)
    if count == 1:
        return mean, torch.tensor(torch.nan).expand_as(mean)
    return mean, squares.div_(count - 1).sqrt_()
