"""An equal mixture over draws of any likelihood of numbers, scored by its own cdf."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.likelihoods import Likelihood

_REACH = (0.5, 1.0, 1.5, 2.0, 2.75, 3.5, 4.5, 6.0, 8.0, 12.0, 20.0, 40.0, 100.0)
_FURTHER = (300.0, 1e3, 3e3, 1e4, 3e4, 1e5)  # for heavy tails
_PIECES = 128
_LARGEST_SUM = 2**12  # counts that are summed one by one
_AT_ONCE = 2**18  # values of the cdf
# the places and weights of Gauss and Legendre for six points in [-1, 1]
_HALF_NODES = (0.2386191860831969, 0.6612093864662645, 0.9324695142031521)
_HALF_WEIGHTS = (0.4679139345726910, 0.3607615730481386, 0.1713244923791704)
_NODES = [
    (sign * node, weight)
    for node, weight in zip(_HALF_NODES, _HALF_WEIGHTS, strict=True)
    for sign in (-1, 1)
]


@final
@dataclass(frozen=True)
class Components:
    """The distributions of all draws, given by raw outputs `(S, B, ...)` in float64.

    `log_prob` is joint over the elements of a row, `(B,)`; the rest is element by element.
    """

    likelihood: Likelihood
    outputs: Tensor

    def log_prob(self, target: Tensor) -> Tensor:
        """Log 1/S sum_t p(y | x, omega_t)."""
        logs = self.likelihood.log_prob(self.outputs, target)
        total: Tensor = logs.logsumexp(0)
        return total - math.log(len(logs))

    def cdf(self, target: Tensor) -> Tensor:
        """Return 1/S sum_t F_t(y)."""
        return self.likelihood.cdf(self.outputs, target).mean(0)

    def cdf_below(self, target: Tensor) -> Tensor:
        """Return P(Y < y), which for counts is less than F(y)."""
        return self.cdf(target - 1) if self.likelihood.whole else self.cdf(target)

    def quantile(self, level: float) -> Tensor:
        """By the likelihood."""
        return self.likelihood.quantile(self.outputs, level)

    def crps(self, target: Tensor, fair: bool) -> Tensor:
        """Int (F(x) - 1[y <= x])^2 dx, numerically; of counts it is a sum over whole numbers.

        Six points of Gauss and Legendre in each of some pieces between the target and the means
        of draws, plus multiples of their standard deviations. The fair score leaves out the pairs
        of a draw with itself: with A = E|Y - y| and G_tu = E|Y_t - Y_u|/2 = int F_t (1 - F_u) dx
        on average over both orders, it is A - sum_{t != u} G_tu / (S (S - 1)).
        """
        draws = len(self.outputs)
        check_fair(fair, draws)
        reached = target.where(target.isfinite(), 0)
        score, error, spread, own = (torch.zeros_like(reached) for _ in range(4))
        for x, widths in self._places(reached):  # each (N, B, *E)
            each = self.likelihood.cdf(self.outputs, x.unsqueeze(1))  # (N, S, B, *E)
            mean = each.mean(1)
            distance = torch.where(x < reached, mean, 1 - mean)
            score += (widths * distance.square()).sum(0)
            if fair:
                error += (widths * distance).sum(0)
                spread += (widths * mean * (1 - mean)).sum(0)
                own += (widths * (each * (1 - each)).sum(1)).sum(0)
        if fair:
            score = error - (draws**2 * spread - own) / (draws * (draws - 1))
        return score.where(target.isfinite(), math.inf)

    def _places(self, target: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Places and the widths that they stand for, some at a time, each `(N, B, *E)`."""
        ends = self._ends(target)  # (P + 1, B, *E)
        at_once = max(1, _AT_ONCE // (len(self.outputs) * target.numel()))
        if self.likelihood.whole:
            ends = torch.cat([ends[:-1].floor(), ends[-1:].ceil() + 1]).clamp(min=0)
            low = ends[0]
            count = min(int((ends[-1] - low).max()), _LARGEST_SUM)
            steps = torch.arange(count, dtype=low.dtype, device=low.device)
            for some in steps.reshape(-1, *[1] * low.ndim).split(at_once):
                yield low + some, torch.ones_like(low).expand(len(some), *low.shape)
            ends = ends.clamp(min=low + count)  # the rest, if any, is smooth enough
            if torch.equal(ends[0], ends[-1]):
                return
        half = ends.diff(dim=0) / 2  # (P, B, *E)
        middles = ends[:-1] + half
        for node, weight in _NODES:
            parts = (part.split(at_once) for part in (middles + half * node, half * weight))
            yield from zip(*parts, strict=True)

    def _ends(self, target: Tensor) -> Tensor:
        """Return the ends of pieces in their order, the target among them."""
        mean, std = (
            self.likelihood.mean(self.outputs),
            self.likelihood.variance(self.outputs).sqrt(),
        )
        if not bool(std.isfinite().all()):  # of tails so heavy that there is no variance
            rows = self.outputs.flatten(0, 1).unsqueeze(0)
            ends = (self.likelihood.quantile(rows, level) for level in (0.16, 0.84))
            low, high = (end.unflatten(0, self.outputs.shape[:2]) for end in ends)
            std = std.where(std.isfinite(), (high - low) / 2)
        times = _REACH if self.likelihood.whole else (*_REACH, *_FURTHER)
        reach = [0.0, *times, *(-each for each in times)]
        ends_ = torch.cat([mean + each * std for each in reach]).sort(0).values
        if len(ends_) > _PIECES:
            kept = torch.linspace(0, len(ends_) - 1, _PIECES, device=ends_.device).round().long()
            ends_ = ends_[kept]
        return torch.cat([ends_, target.unsqueeze(0)]).sort(0).values


def check_fair(fair: bool, draws: int) -> None:
    """Raise an error for a fair score of a single draw."""
    if fair and draws < 2:
        raise ValueError("fair: expected two or more draws, got one; pass fair=False")
