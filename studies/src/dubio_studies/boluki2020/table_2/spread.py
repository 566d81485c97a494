"""Whether items with a low spread are hit more often than others with the same score."""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from dubio_studies.boluki2020.table_2.ranking import Floats, Ranking

BLOCK = 20  # recommendations of nearly the same score, half of them of low spread


@final
@dataclass(frozen=True)
class HitRates:
    """Of recommendations within a range of scores, by their spread.

    Attributes:
        score: Mean score of all of them.
        low: Hit rate of the halves with the lower spread.
        low_error: Its standard error over users.
        high: Hit rate of the other halves.
        high_error: Its standard error over users.
        difference_error: The standard error of low − high over users.
        score_gap: Mean score of the low halves less that of the high, over the mean score.
        pairs: How many recommendations.
    """

    score: float
    low: float
    low_error: float
    high: float
    high_error: float
    difference_error: float
    score_gap: float
    pairs: int


def hit_rates(ranking: Ranking, scores: Floats, bins: int) -> list[HitRates]:
    """Hit rates in bins of equal score, the first of which holds all recommendations.

    Recommendations of all users are sorted by score and cut into blocks. Each block is halved at
    the median of its spreads: so both halves have the same scores. Bins hold as many blocks each.
    Errors are over users, since what is recommended to one user hangs together.

    Args:
        ranking: With spreads.
        scores: What to hold equal, (B, R).
        bins: How many.
    """
    there = ranking.ids >= 0
    user = np.broadcast_to(np.arange(len(ranking.users))[:, None], there.shape)[there]
    score, spread, found = scores[there], ranking.spread[there], ranking.found[there]
    order = np.argsort(score, kind="stable")
    blocks = order[: len(order) // BLOCK * BLOCK].reshape(-1, BLOCK)
    inner = np.argsort(spread[blocks], axis=1, kind="stable")
    low = np.take_along_axis(blocks, inner[:, : BLOCK // 2], 1)
    high = np.take_along_axis(blocks, inner[:, BLOCK // 2 :], 1)
    parts = [np.arange(len(blocks)), *np.array_split(np.arange(len(blocks)), bins)]
    return [
        _compare(score, found, user, low[part].ravel(), high[part].ravel())
        for part in parts
        if len(part)
    ]


def _compare(
    score: Floats,
    found: npt.NDArray[np.bool_],
    user: npt.NDArray[np.int64],
    low: npt.NDArray[np.int64],
    high: npt.NDArray[np.int64],
) -> HitRates:
    rates = found[low].mean(), found[high].mean()
    influence = [  # of each user on the two rates
        np.bincount(user[side], found[side] - rate, minlength=user.max() + 1) / len(side)
        for side, rate in zip((low, high), rates, strict=True)
    ]
    mean = score[np.concatenate([low, high])].mean()
    return HitRates(
        score=float(mean),
        low=float(rates[0]),
        low_error=_norm(influence[0]),
        high=float(rates[1]),
        high_error=_norm(influence[1]),
        difference_error=_norm(influence[0] - influence[1]),
        score_gap=float((score[low].mean() - score[high].mean()) / mean),
        pairs=len(low) + len(high),
    )


def _norm(influence: Floats) -> float:
    return float(np.sqrt((influence**2).sum()))
