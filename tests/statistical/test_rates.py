"""Rates of masks from 10⁻⁶ to 1 − 10⁻⁶, beside multiples of 1/256 and 1/65536, over many bits.

Every test is an exact two-sided binomial test; their levels add up to 1e-6. With `DUBIO_LONG_TESTS`
each rate gets 10⁹ bits, else 2·10⁷, and torch without the kernels has a fiftieth of that. Power: a
rare bit shows most. 1.5/65536 is told from 1/65536 and 2/65536 by 50 deviations with 10⁹ bits, and
by 7 with 2·10⁷. That the last of 32 bits decides as it must is tested in `tests/native`.
"""

import os

import pytest
import scipy.stats
import torch

import dubio
from dubio.native.stream import Stream

BYTE, HALF, LEAST = 2.0**-8, 2.0**-16, 2.0**-32
COARSE = [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.3, 0.5]
RATES = [
    *COARSE,
    *(1 - rate for rate in COARSE[:-1]),
    *(k * BYTE + e for k in (1, 128, 255) for e in (-LEAST, 0, LEAST, -HALF / 2, HALF / 2)),
    *(k * HALF + e for k in (1, 2, 65535) for e in (-LEAST, 0, LEAST, -HALF / 2, HALF / 2)),
]
CELLS = 64  # in which places are counted apart
FALSE_ALARMS = 1e-6
LEVEL = FALSE_ALARMS / (2 * len(RATES))
AT_ONCE = 1_000_000


def bits() -> int:
    many = 1_000_000_000 if os.environ.get("DUBIO_LONG_TESTS") else 20_000_000
    return many if dubio.kernels().native else many // 50


@pytest.mark.parametrize("keep", RATES)
def test_a_rate_is_what_was_asked_for(keep: float) -> None:
    like, shape, size = torch.empty(0), torch.Size([AT_ONCE // CELLS * CELLS]), bits()
    draws = -(-size // shape.numel())
    cells = torch.zeros(CELLS, dtype=torch.float64)
    for draw in range(draws):
        cells += Stream(20, draw, 1).bernoulli(keep, shape, like).view(-1, CELLS).sum(0)
    kept, of = int(cells.sum()), draws * shape.numel()
    assert scipy.stats.binomtest(kept, of, keep).pvalue > LEVEL
    # every place of a row of 64 has that rate: the most extreme of the cells
    for most in (cells.min(), cells.max()):
        assert scipy.stats.binomtest(int(most), of // CELLS, keep).pvalue > LEVEL / CELLS
