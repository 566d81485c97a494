"""Binomial tails against scipy."""

import numpy as np
import pytest
import scipy.stats
import torch

from dubio.decide.binomial import cdf, log_cdf, upper_bound


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("trials", [1, 2, 17, 1000, 200_000])
def test_log_cdf(trials: int, rate: float) -> None:
    last = min(trials, 3000)
    found = log_cdf(last, trials, rate).numpy()
    expected = scipy.stats.binom.logcdf(np.arange(last + 1), trials, rate)
    seen = expected > -600  # scipy's cdf underflows below
    np.testing.assert_allclose(found[seen], expected[seen], rtol=1e-8, atol=1e-8)
    assert (np.diff(found) >= -1e-9).all()


@pytest.mark.parametrize("rate", [1e-4, 0.02, 0.3, 0.97])
def test_cdf(rate: float) -> None:
    trials = np.repeat([1, 2, 17, 400, 200_000], 6)
    means, spread = trials * rate, np.sqrt(trials * rate * (1 - rate))
    last = np.clip(np.round(means + np.tile([-6, -3, -1, 0, 2, 1e9], 5) * spread), 0, trials)
    found = cdf(torch.from_numpy(last), torch.from_numpy(trials), rate).numpy()
    np.testing.assert_allclose(found, scipy.stats.binom.cdf(last, trials, rate), rtol=1e-8)


def test_far_tails() -> None:
    assert float(log_cdf(0, 10_000, 0.9)[0]) == pytest.approx(10_000 * np.log1p(-0.9))


@pytest.mark.parametrize("level", [1e-8, 0.001, 0.05, 0.5])
@pytest.mark.parametrize(
    ("events", "trials"), [(0, 1), (0, 500), (3, 20), (19, 20), (50, 1000), (12, 100_000)]
)
def test_upper_bound(events: int, trials: int, level: float) -> None:
    expected = scipy.stats.beta.ppf(1 - level, events + 1, trials - events)
    found = upper_bound(events, trials, level)
    assert found == pytest.approx(expected, rel=1e-7)
    assert scipy.stats.binom.cdf(events, trials, found) <= level * (1 + 1e-7)


def test_nothing_known() -> None:
    assert upper_bound(0, 0, 0.05) == 1.0
    assert upper_bound(7, 7, 0.05) == 1.0
