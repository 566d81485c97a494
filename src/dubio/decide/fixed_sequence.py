"""Fixed-sequence testing: find the loosest threshold with a guaranteed error rate."""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.decide.binomial import cdf


@final
@dataclass(frozen=True)
class Tested:
    """The result of testing the thresholds of a score.

    Attributes:
        threshold: The loosest that passed; −∞, which answers nothing, if there is none.
        rows: How many rows were below it; if there is none, how many were in the test that failed.
        errors: How many of them were wrong.
    """

    threshold: float
    rows: int
    errors: int


def fewest_rows(error_rate: float, level: float) -> int:
    """Return the fewest rows, all right, that show an error rate: (1 − r)ⁿ ≤ δ."""
    return math.ceil(math.log(level) / math.log1p(-error_rate))


def loosest_threshold(scores: Tensor, wrong: Tensor, error_rate: float, level: float) -> Tested:
    """Test thresholds from the strictest on, each at the full level, until one fails.

    The hypothesis of a threshold t is P(wrong | score < t) > r; it is rejected, so that t passes,
    if e errors among the m rows below t have P(Bin(m, r) ≤ e) ≤ δ. To go on only as long as
    thresholds pass keeps the probability that any true hypothesis is rejected below δ: that takes
    the first true one to be rejected (Bauer 1991; Angelopoulos et al. 2021, "Learn then test",
    fixed-sequence testing). The order is that of the numbers, so that labels have no say.

    All thresholds are tested, not a grid of quantiles: between two neighbouring scores the same
    rows are below, so that one test stands for all thresholds between them, and the first true
    hypothesis is at a place that does not depend on the rows. With a grid it would be at one that
    does, and rows that are below it by chance would help it.

    The first test has the k = max(n / 4, fewest rows) lowest of n scores: at k the test has power,
    and most wishes are for more coverage. Given the score after them these are independent draws of
    the rows below it, so that their errors are binomial. If that score is in a first true
    hypothesis, this test rejects it with probability δ at most. Otherwise the first one, t, comes
    later, after an a with P(wrong | score < a) ≤ r; that fewer than k rows are below a makes errors
    below t only likelier. Equal scores are put in a random order for the first test, and are
    answered together or not at all: after it only thresholds between different scores are tested.

    Args:
        scores: How doubtful rows are, `(B,)`; rows with an infinite score are left out.
        wrong: Whether they were wrong, `(B,)`.
        error_rate: r.
        level: δ.
    """
    known = scores.isfinite()
    scores, wrong = scores[known].cpu(), wrong[known].cpu()
    rows = len(scores)
    first = max(fewest_rows(error_rate, level), rows // 4)
    if first > rows:
        return Tested(-math.inf, rows, int(wrong.sum()))
    shuffled = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    ordered, order = scores[shuffled].sort(stable=True)
    errors = wrong[shuffled][order].cumsum(0)
    between = torch.ones(rows, dtype=torch.bool)  # whether a threshold fits after each row
    between[:-1] = ordered[:-1] < ordered[1:]
    tested = between.clone()
    tested[first - 1] = True
    last = tested[first - 1 :].nonzero().flatten() + first - 1  # (T,): of the rows in each test
    failed = cdf(errors[last], last + 1, error_rate) > level
    passed = last[: int(failed.long().argmax())] if bool(failed.any()) else last
    passed = passed[between[passed]]
    if not len(passed):
        place = int(last[failed.long().argmax()])
        return Tested(-math.inf, place + 1, int(errors[place]))
    place = int(passed[-1])
    threshold = float(ordered[place + 1]) if place + 1 < rows else math.inf
    return Tested(threshold, place + 1, int(errors[place]))
