"""Masks are independent bits with the asked probability, to a resolution of 2⁻³².

Every test is a two-sided exact binomial or chi-square test, at a level that adds up to 1e-6 over
the whole file. Power: with four million bits a probability that is rounded to a multiple of 1/256,
by half of that, is found with probability above 0.9 for all values here. `test_rates.py` has many
more bits, and `tests/native` the bits themselves.
"""

import math

import pytest
import scipy.stats
import torch
from torch import Tensor

from dubio.native.stream import Stream

KEEPS = [0.5, 0.9, 0.8, 0.99, 0.999, 0.3333, 0.05, 0.001, 0.1, 0.75, 0.9999]
SIZES = [37, 1023, 1024, 1031, 4099]  # straddle a run of the kernels
LAGS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
FALSE_ALARMS = 1e-6
LEVEL = FALSE_ALARMS / (len(KEEPS) * len(SIZES) * (3 + len(LAGS)) + len(KEEPS) * 2 + 3)


def bits(keep: float, draws: int, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Masks of some draws."""
    return Stream(0, 0, draws).bernoulli(keep, torch.Size([size]), torch.empty(0, dtype=dtype))


@pytest.fixture(scope="module", params=SIZES)
def size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module", params=KEEPS)
def keep(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture(scope="module")
def masks(keep: float, size: int) -> Tensor:
    """About four million bits, fewer in the shortest rows."""
    return bits(keep, min(math.ceil(2**22 / size), 8_000), size)


def check_count(events: Tensor, probability: float) -> None:
    """How often independent events happened."""
    happened, of = int(events.sum()), events.numel()
    assert scipy.stats.binomtest(happened, of, probability).pvalue > LEVEL


def check_chi_square(statistic: float, freedom: float) -> None:
    assert scipy.stats.chi2.sf(statistic, freedom) > LEVEL / 2
    assert scipy.stats.chi2.cdf(statistic, freedom) > LEVEL / 2  # too regular is not random


def test_the_probability_is_exact(masks: Tensor, keep: float) -> None:
    assert ((masks == 0) | (masks == 1)).all()
    check_count(masks == 1, keep)


def test_the_probability_is_the_same_at_every_position(masks: Tensor, keep: float) -> None:
    """Sums of positions that are close, so that rare bits fill the cells of the chi-square test."""
    draws, size = masks.shape
    width = min(size, max(1, math.ceil(50 / (draws * min(keep, 1 - keep)))))
    cells = masks[:, : size // width * width].sum(0).double().view(-1, width).sum(1)
    count = draws * width
    statistic = float(((cells - count * keep) ** 2).sum() / (count * keep * (1 - keep)))
    check_chi_square(statistic, len(cells))
    check_count(masks[:, -16:] == 1, keep)


def test_pairs_are_independent(masks: Tensor, keep: float) -> None:
    rare = masks == float(keep < 0.5)
    for lag in [lag for lag in LAGS if 2 * lag <= masks.shape[1]]:
        whole = masks.shape[1] // (2 * lag) * 2 * lag
        first, second = rare[:, :whole].unflatten(1, (-1, 2, lag)).unbind(2)  # disjoint pairs
        check_count(first & second, min(keep, 1 - keep) ** 2)


def test_draws_are_independent(keep: float) -> None:
    rare = bits(keep, 1024, 4099) == float(keep < 0.5)
    check_count(rare[::2] & rare[1::2], min(keep, 1 - keep) ** 2)


def test_runs_of_four_have_the_probabilities_of_independent_bits(keep: float) -> None:
    masks = bits(keep, 1000, 4 * 1031)
    codes = masks.view(-1, 4) @ torch.tensor([1.0, 2.0, 4.0, 8.0])
    counts = torch.bincount(codes.long(), minlength=16).double()
    ones = torch.tensor([code.bit_count() for code in range(16)], dtype=torch.float64)
    expected = keep**ones * (1 - keep) ** (4 - ones) * len(codes)
    rare = expected < 50  # together one cell
    cells = torch.stack([(counts - expected)[~rare], expected[~rare]])
    pooled = torch.stack([(counts - expected)[rare].sum(), expected[rare].sum()])[:, None]
    cells = torch.cat([cells, pooled], dim=1) if pooled[1] > 50 else cells
    check_chi_square(float((cells[0] ** 2 / cells[1]).sum()), cells.shape[1] - 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_the_dtype(keep: float, size: int, dtype: torch.dtype) -> None:
    assert torch.equal(bits(keep, 5, size, dtype).float(), bits(keep, 5, size))


def test_bits_of_a_draw_do_not_depend_on_other_draws(keep: float, size: int) -> None:
    together = bits(keep, 5, size)
    for draw, row in enumerate(together):
        alone = Stream(0, draw, 1).bernoulli(keep, torch.Size([size]), torch.empty(0))
        assert torch.equal(alone[0], row)


@pytest.mark.parametrize("size", [1, 1024, 1025])
def test_certainty(size: int) -> None:
    assert (bits(1.0, 3, size) == 1).all()
    assert (bits(0.0, 3, size) == 0).all()


@pytest.mark.parametrize("keep", [1e-9, 1 - 1e-9, 0.5 + 2**-40])
def test_extreme_probabilities(keep: float) -> None:
    """Expected number of rare bits: about four in a thousand."""
    check_count(bits(keep, 10, 400_001) == 1, keep)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    bits(0.9, 3, 1000)
    bits(0.9, 3, 5000, torch.float64)
    assert torch.equal(torch.get_rng_state(), before)
