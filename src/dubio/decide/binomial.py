"""Exact tails of the binomial distribution."""

import math

import torch
from torch import Tensor

from dubio.likelihoods.incomplete_beta import incomplete_beta

STEPS = 60  # of bisection: a rate to 2⁻⁶⁰


def log_cdf(last: int, trials: int, rate: float) -> Tensor:
    """Return log P(X ≤ j) for j = 0…last, `(last + 1,)`, with X ~ Bin(trials, rate).

    Terms are added as logarithms, so that tails far below the smallest float are exact too. The
    relative error of P is that of log-gamma at `trials`: 1e-9 for a million.
    """
    j = torch.arange(last + 1, dtype=torch.float64)
    n = torch.tensor(trials, dtype=torch.float64)
    ways = (n + 1).lgamma() - (j + 1).lgamma() - (n - j + 1).lgamma()
    return (ways + j * math.log(rate) + (n - j) * math.log1p(-rate)).logcumsumexp(0)


def cdf(last: Tensor, trials: Tensor, rate: float) -> Tensor:
    """Return P(X ≤ last) if X has the law Bin(trials, rate), of many pairs at once, in float64.

    It is I_{1−rate}(trials − last, last + 1), the regularised incomplete beta function.
    """
    last, trials = last.double(), trials.double()
    rest = torch.full_like(last, rate)
    above = (trials - last).clamp(min=1)  # P is one where it is 0
    tails = incomplete_beta(above, last + 1, 1 - rest, rest)
    return tails.where(last < trials, 1.0)


def upper_bound(events: int, trials: int, level: float) -> float:
    """Return the Clopper–Pearson bound of a rate: the rate at which P(X ≤ events) = level.

    The true rate is above it with probability `level` at most (Clopper and Pearson 1934).
    """
    if events == trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        above = float(log_cdf(events, trials, middle)[-1]) > math.log(level)
        low, high = (middle, high) if above else (low, middle)
    return high
