"""Normal and uniform numbers, and that no two streams have anything to do with each other.

The false-alarm rates of all tests add up to 1e-6.
"""

import math

import pytest
import scipy.special
import scipy.stats
import torch
from torch import Tensor

import dubio
from dubio.native import philox
from dubio.native.stream import Stream
from dubio.noise.numbers import Numbers, mix

LIKE = torch.empty(0)
FALSE_ALARMS = 1e-6
LEVEL = FALSE_ALARMS / 40  # of a test, of which there are fewer
MANY = 10_000_000 if dubio.kernels().native else 500_000


@pytest.fixture(scope="module")
def normals() -> Tensor:
    return Stream(31, 0, 1).normal(torch.Size([MANY]), LIKE)[0]


def check_deviations(deviations: Tensor) -> None:
    """Numbers that are N(0, 1) each: the most extreme of them."""
    bound = scipy.stats.norm.isf(LEVEL / 2 / deviations.numel())
    assert deviations.abs().max() < bound


def test_moments_to_the_sixth(normals: Tensor) -> None:
    """Means of powers, by the central limit theorem: their skewness is below 33/√n = .01."""
    x, power = normals.double(), torch.ones(MANY, dtype=torch.float64)
    moments = [1.0, 0, 1, 0, 3, 0, 15, 0, 105, 0, 945, 0, 10395]
    deviations = []
    for k in range(1, 7):
        power *= x
        spread = math.sqrt((moments[2 * k] - moments[k] ** 2) / MANY)
        deviations.append((power.mean() - moments[k]) / spread)
    check_deviations(torch.stack(deviations))


def anderson_darling(x: Tensor) -> float:
    """A² of Anderson and Darling (1954) for the standard normal distribution."""
    ordered = x.double().sort().values.numpy()
    below, above = scipy.special.log_ndtr(ordered), scipy.special.log_ndtr(-ordered)
    n = len(ordered)
    weights = 2 * torch.arange(1, n + 1, dtype=torch.float64) - 1
    total = weights @ torch.from_numpy(below) + weights.flip(0) @ torch.from_numpy(above)
    return -n - float(total) / n


def excess(statistic: float) -> float:
    """P(A² > z) for large z.

    A² = Σⱼ χ²ⱼ/(j(j + 1)), and the largest weight, ½, rules: P(A² > z) is close to
    ∏ⱼ₌₂ (1 − 2/(j(j + 1)))^−½ · P(χ²/2 > z) = √3·erfc(√z) (Zolotarev 1961).
    """
    return math.sqrt(3) * math.erfc(math.sqrt(statistic))


def test_anderson_darling(normals: Tensor) -> None:
    assert excess(2.492) == pytest.approx(0.05, rel=0.15)  # the published 5 % and 1 % points
    assert excess(3.857) == pytest.approx(0.01, rel=0.10)
    assert excess(anderson_darling(normals)) > LEVEL
    assert excess(anderson_darling(normals[:500_000] * 1.02)) < LEVEL  # it would tell


def test_tails(normals: Tensor) -> None:
    for bound in (3.0, 4.0, 4.5):
        for side in (normals, -normals):
            beyond = int((side > bound).sum())
            own = scipy.stats.norm.sf(bound)
            assert scipy.stats.binomtest(beyond, MANY, own).pvalue > LEVEL / 6


def check_equally_frequent(halves: Tensor) -> None:
    """All 16-bit numbers, neither too unevenly nor too evenly."""
    counts, expected = torch.bincount(halves, minlength=65536), halves.numel() / 65536
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert LEVEL / 2 < scipy.stats.chi2.sf(statistic, 65535) < 1 - LEVEL / 2


def test_all_halves_are_equally_frequent() -> None:
    uniform = Stream(32, 0, 1).uniform(torch.Size([MANY]), LIKE)[0]
    check_equally_frequent((uniform * 65536).long())
    bits = philox.bits(32, 0, 1, 2_000_000, torch.device("cpu"))[0]
    check_equally_frequent(bits & 0xFFFF)


ROWS, WIDTH = 1000, 400
SIZE = ROWS * WIDTH


def standard(stream: Stream) -> list[Tensor]:
    """Numbers of mean zero and variance one, of three kinds: (3, entries)."""
    shape = torch.Size([SIZE])
    uniform, normal, mask = (
        stream.uniform(shape, LIKE)[0],
        stream.normal(shape, LIKE)[0],
        stream.bernoulli(0.9, shape, LIKE)[0],
    )
    return [(uniform - 0.5) * math.sqrt(12), normal, (mask - 0.9) / 0.3]


def correlations(pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """√n times the mean products, N(0, 1) each if numbers are independent."""
    return torch.stack([(a * b).double().sum() / math.sqrt(a.numel()) for a, b in pairs])


@pytest.mark.parametrize("kind", range(3))
def test_neighbours_and_rows_are_not_correlated(kind: int) -> None:
    x = standard(Stream(33, 0, 1))[kind]
    lags = [
        *range(1, 68),
        96,
        127,
        128,
        129,
        256,
        WIDTH - 1,
        WIDTH,
        WIDTH + 1,
        512,
        1023,
        1024,
        1025,
    ]
    pairs = [(x[lag:], x[:-lag]) for lag in lags]
    squares = [(a.square() - 1, b) for a, b in pairs]
    check_deviations(correlations(pairs))
    check_deviations(correlations(squares) / (x.square() - 1).double().std())


def streams() -> dict[str, list[Stream]]:
    numbers = [Numbers(seed, range(1), shared=False) for seed in (*range(6), 2**32, 2**63)]
    return {
        "draws": [Stream(34, draw, 1) for draw in (0, 1, 2, 3, 4, 2**31, 2**32, 2**33, 2**40)],
        "sites": [Stream(mix(7, site), 0, 1) for site in range(9)],
        "parts of sites": [Stream(mix(7, 0, part), 0, 1) for part in range(9)],
        "seeds": [own._at((0,)) for own in numbers],
        "keys": [Stream(35 ^ 1 << bit, 0, 1) for bit in range(0, 64, 7)],
    }


@pytest.mark.parametrize("name", streams())
def test_streams_are_not_correlated(name: str) -> None:
    made = [standard(stream) for stream in streams()[name]]
    pairs = [
        (one[kind], other[kind])
        for index, one in enumerate(made)
        for other in made[:index]
        for kind in range(3)
    ]
    check_deviations(correlations(pairs))


def test_what_numbers_are_for_tells_them_apart() -> None:
    """The normal and the uniform numbers of a stream, and both halves of the latter."""
    uniform, normal, _ = standard(Stream(36, 0, 1))
    bits = philox.bits(36, 0, 1, SIZE, torch.device("cpu"))[0]
    high, low = (
        (half.double() / 65536 - 0.5) * math.sqrt(12) for half in (bits >> 16, bits & 0xFFFF)
    )
    check_deviations(correlations([(uniform, normal), (normal, low), (high, low)]))
