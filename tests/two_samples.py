"""Do two sets of draws come from one distribution? Tests of mean and variance, column by column."""

from statistics import NormalDist

import torch
from torch import Tensor


def deviations(a: Tensor, b: Tensor) -> Tensor:  # (S, n), (S', n) -> (2, n)
    """How many standard errors the means, and the variances, lie apart.

    Each is about N(0, 1) if the distributions agree: the standard error of a variance comes from
    the fourth moment, so nothing is assumed Gaussian but averages over thousands of draws. Columns
    that do not vary at all must be equal.
    """
    (mean, variance, fourth), (mean_b, variance_b, fourth_b) = _moments(a), _moments(b)
    of_mean = variance / len(a) + variance_b / len(b)
    of_variance = (fourth - variance**2) / len(a) + (fourth_b - variance_b**2) / len(b)
    tiny = torch.finfo(torch.float64).tiny
    apart = torch.stack([(mean - mean_b) ** 2, (variance - variance_b) ** 2])
    return (apart / (torch.stack([of_mean, of_variance]) + tiny)).sqrt()


def critical_value(tests: int, false_alarms: float) -> float:
    """What the largest of so many deviations exceeds with this probability at most (Bonferroni)."""
    return -NormalDist().inv_cdf(false_alarms / tests / 2)


def with_sums(draws: Tensor) -> Tensor:  # (S, B, …) -> (S, n)
    """The outputs of every row and, for how they vary together, their sums with changing signs."""
    flat = draws.double().flatten(2)  # (S, B, K)
    signs = torch.ones(flat.shape[-1], dtype=torch.float64)
    signs[::2] = -1
    return torch.cat([flat, (flat * signs).sum(-1, keepdim=True)], dim=-1).flatten(1)


def _moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.mean(0)
    return mean, (x - mean).pow(2).mean(0), (x - mean).pow(4).mean(0)
