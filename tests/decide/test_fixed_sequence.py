"""Fixed-sequence testing: against a naive loop, and its guarantee on repeated simulations.

The scores of a simulation take the values of a few atoms, or spread evenly within cells, so that
the error rate below every threshold is known exactly. A guarantee is tested by the exact binomial
test of how often it fails, with a false-alarm rate of 1e-6 a case.
"""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from dubio.decide.fixed_sequence import fewest_rows, loosest_threshold

FALSE_ALARMS = 1e-6
REPEATS = 200
LEVEL = 0.2
RATE = 0.1

# shares of rows, and error rates, in cells of the score from 0 to 1, 1 to 2, …
CELLS = {
    "all above": ([1.0], [0.101]),
    "rising": ([0.5, 0.3, 0.2], [0.04, 0.12, 0.4]),
    "a jump": ([0.4, 0.6], [0.09, 0.11]),
    "above from the first test on": ([0.2, 0.8], [0.05, 0.125]),
    "falling": ([0.3, 0.7], [0.2, 0.065]),
    "up and down": ([0.2, 0.2, 0.2, 0.2, 0.2], [0.15, 0.04, 0.12, 0.0, 0.4]),
    "good rows in the way of the first test": ([0.25, 0.25, 0.5], [0.2, 0.0, 0.101]),
    "all wrong": ([1.0], [1.0]),
}


@pytest.mark.parametrize("tied", [False, True], ids=["spread", "tied"])
@pytest.mark.parametrize("rows", [16, 400])
@pytest.mark.parametrize("case", CELLS)
def test_guarantee(case: str, rows: int, tied: bool) -> None:
    shares, rates = map(np.array, CELLS[case])
    edges = np.arange(len(shares) + 1.0)
    below = np.concatenate([[0], shares.cumsum()])
    bad = np.concatenate([[0], (shares * rates).cumsum()])
    random = np.random.default_rng(rows)
    failures = 0
    for _ in range(REPEATS):
        cell = random.choice(len(shares), rows, p=shares)
        scores = cell + (0.5 if tied else random.random(rows))
        wrong = random.random(rows) < rates[cell]
        found = loosest_threshold(
            torch.from_numpy(scores), torch.from_numpy(wrong), RATE, LEVEL
        ).threshold
        if found == -math.inf:
            continue
        end = np.ceil(found - 0.5) if tied else found  # atoms are at 0.5, 1.5, …
        rate = np.interp(end, edges, bad) / np.interp(end, edges, below)
        failures += bool(rate > RATE + 1e-12)
    assert failures <= scipy.stats.binom.isf(FALSE_ALARMS, REPEATS, LEVEL)


@pytest.mark.parametrize("values", [4, 30, 10**9])
@pytest.mark.parametrize("seed", range(4))
def test_naive_loop(values: int, seed: int) -> None:
    """With few values scores tie; of four, the first test is within a tie and passes here."""
    random = np.random.default_rng(seed)
    scores = random.integers(values, size=300)
    wrong = random.random(300) < 0.2 * (scores / values) ** 2
    found = loosest_threshold(
        torch.from_numpy(scores).double(), torch.from_numpy(wrong), RATE, 0.05
    )
    expected, kept = -math.inf, 0
    for threshold in [*np.unique(scores), math.inf]:
        chosen = scores < threshold
        if chosen.sum() < 75:
            continue
        if scipy.stats.binom.cdf(wrong[chosen].sum(), chosen.sum(), RATE) > 0.05:
            break
        expected, kept = threshold, int(chosen.sum())
    assert found.threshold == expected > -math.inf
    assert (found.rows, found.errors) == (kept, wrong[scores < expected].sum())


def test_it_stops_at_the_first_failure() -> None:
    """Although looser thresholds would pass."""
    wrong = torch.zeros(1000, dtype=torch.bool)
    wrong[300:350] = True
    found = loosest_threshold(torch.arange(1000.0), wrong, RATE, 0.05)
    assert scipy.stats.binom.cdf(50, 1000, RATE) < 0.05
    assert 300 < found.rows < 340
    assert found.threshold == found.rows


def test_the_first_test() -> None:
    """A quarter of the rows; or as many as could show anything; errors before do not matter."""
    wrong = torch.zeros(1000, dtype=torch.bool)
    wrong[:15] = True
    assert scipy.stats.binom.cdf(15, 250, RATE) < 0.05 < scipy.stats.binom.cdf(15, 200, RATE)
    assert loosest_threshold(torch.arange(1000.0), wrong, RATE, 0.05).threshold == math.inf
    wrong[15:30] = True
    failed = loosest_threshold(torch.arange(1000.0), wrong, RATE, 0.05)
    assert (failed.threshold, failed.rows, failed.errors) == (-math.inf, 250, 30)
    least = fewest_rows(RATE, 0.05)
    assert 0.9**least <= 0.05 < 0.9 ** (least - 1)
    right = torch.zeros(least, dtype=torch.bool)
    assert loosest_threshold(torch.arange(float(least)), right, RATE, 0.05).threshold == math.inf
    few = loosest_threshold(torch.arange(float(least - 1)), right[1:], RATE, 0.05)
    assert (few.threshold, few.rows) == (-math.inf, least - 1)


def test_the_order_of_tied_rows() -> None:
    """A tie in the first test is in random order: rows that are sorted by label do no harm."""
    wrong = torch.arange(1000) < 50
    found = loosest_threshold(torch.zeros(1000), wrong, RATE, 0.05)
    assert (found.threshold, found.rows, found.errors) == (math.inf, 1000, 50)


def test_infinite_scores_are_left_out() -> None:
    scores = torch.cat([torch.full((900,), math.inf), torch.arange(100.0)])
    wrong = torch.arange(1000) < 900
    found = loosest_threshold(scores, wrong, RATE, 0.05)
    assert (found.threshold, found.rows, found.errors) == (math.inf, 100, 0)


def test_the_global_generator_stays() -> None:
    state = torch.get_rng_state()
    loosest_threshold(torch.arange(100.0), torch.zeros(100, dtype=torch.bool), RATE, 0.05)
    assert torch.equal(torch.get_rng_state(), state)
