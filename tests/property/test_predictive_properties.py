"""What holds of every predictive distribution, however odd its draws."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Multinomial,
    Point,
)
from dubio.predictive.predictive import Predictive, StoredDraws

ROUNDING = 1e-5
relaxed = settings(deadline=None)  # the first call of a torch function is slow
logits = st.sampled_from([-math.inf, -1e4, -90.0, -1e-8, 0.0, 1e-8, 17.0, 90.0, 1e4]) | st.floats(
    -20, 20, width=32
)
values = st.floats(-1e6, 1e6, width=32)


@st.composite
def outputs(
    draw: st.DrawFn, elements: st.SearchStrategy[float], last: int | None = None
) -> tuple[Tensor, int]:
    """Draws `(S, B, K)` of some float dtype, and a size of chunks."""
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 3)), last or draw(st.integers(2, 5))
    count = math.prod(shape)
    flat = draw(st.lists(elements, min_size=count, max_size=count))
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
    chunk_bytes = draw(st.sampled_from([1, 100, 2**20]))
    return torch.tensor(flat, dtype=torch.float64).reshape(shape).to(dtype), chunk_bytes


def check_discrete(result: Predictive, labels: int) -> None:
    entropy, information = result.entropy, result.mutual_information
    assert ((result.mean >= 0) & (result.mean <= 1)).all()
    assert (information >= 0).all()
    assert (information <= entropy).all()
    assert ((entropy >= 0) & (entropy <= math.log(labels) + ROUNDING)).all()
    assert (result.expected_entropy >= 0).all()
    assert (result.expected_entropy <= entropy + ROUNDING).all()
    assert (result.variation_ratio >= 0).all()
    assert (result.variation_ratio <= 1 - 1 / labels + ROUNDING).all()
    total = result.mean * (1 - result.mean)
    torch.testing.assert_close(result.variance, total, atol=ROUNDING, rtol=0)


def check_moments(result: Predictive) -> None:
    assert (result.epistemic >= 0).all()
    assert (result.variance >= result.epistemic).all()
    assert result.std.isfinite().all()


@relaxed
@given(outputs(logits))
def test_categorical(case: tuple[Tensor, int]) -> None:
    draws, chunk_bytes = case
    draws[..., 0] = draws[..., 0].clamp(min=-1e4)  # some class is possible
    result = Predictive(Categorical(), StoredDraws(draws, chunk_bytes))
    check_moments(result)
    check_discrete(result, draws.shape[-1])
    ones = result.mean.sum(-1)
    torch.testing.assert_close(ones, torch.ones_like(ones), atol=ROUNDING, rtol=0)


@relaxed
@given(outputs(logits), st.integers(1, 9), st.booleans())
def test_multinomial(case: tuple[Tensor, int], total_count: int, coefficient: bool) -> None:
    draws, chunk_bytes = case
    draws[..., 0] = draws[..., 0].clamp(min=-1e4)  # some category is possible
    likelihood = Multinomial(total_count, coefficient=coefficient)
    result = Predictive(likelihood, StoredDraws(draws, chunk_bytes))
    check_moments(result)
    totals = result.mean.sum(-1)
    torch.testing.assert_close(totals, torch.full_like(totals, total_count))
    sample = result.sample(3)
    assert (sample.sum(-1) == total_count).all()
    logs = result.log_prob(sample[0])
    assert logs.isfinite().all()  # what was sampled is possible
    assert (logs <= ROUNDING).all()


@relaxed
@given(outputs(logits | st.just(math.inf)))
def test_bernoulli(case: tuple[Tensor, int]) -> None:
    result = Predictive(Bernoulli(), StoredDraws(*case))
    check_moments(result)
    check_discrete(result, 2)


@relaxed
@given(outputs(st.floats(0, 1, width=32)))
def test_bernoulli_probabilities(case: tuple[Tensor, int]) -> None:
    result = Predictive(Bernoulli(outputs="probabilities"), StoredDraws(*case))
    check_moments(result)
    check_discrete(result, 2)


@relaxed
@given(outputs(values), st.floats(0.01, 100))
def test_gaussian(case: tuple[Tensor, int], noise_precision: float) -> None:
    result = Predictive(Gaussian(noise_precision), StoredDraws(*case))
    check_moments(result)
    assert (result.log_prob(result.sample()[0]) < math.inf).all()


@relaxed
@given(outputs(st.floats(-80, 80, width=32), last=4))
def test_heteroscedastic_gaussian(case: tuple[Tensor, int]) -> None:
    check_moments(Predictive(HeteroscedasticGaussian(), StoredDraws(*case)))


@relaxed
@given(outputs(values))
def test_point(case: tuple[Tensor, int]) -> None:
    draws, _ = case
    result = Predictive(Point(), StoredDraws(*case))
    check_moments(result)
    wide = draws.double()
    scale = 1 + wide.abs().amax(0)
    exact = wide.var(0, correction=0)
    torch.testing.assert_close(
        result.mean.double() / scale, wide.mean(0) / scale, atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        result.epistemic.double() / scale**2, exact / scale**2, atol=1e-5, rtol=0
    )


@relaxed
@given(outputs(values), st.floats(0.01, 100), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_gaussian_quantiles_are_ordered_and_invert_the_cdf(
    case: tuple[Tensor, int], noise_precision: float, one: float, other: float
) -> None:
    draws, _ = case
    low, high = sorted((one, other))
    result = Predictive(Gaussian(noise_precision), StoredDraws(draws.double()))
    quantiles = result.quantile([low, high])
    assert (quantiles[0] <= quantiles[1]).all()
    for level, y in zip((low, high), quantiles, strict=True):
        cdf = torch.special.ndtr((y - draws.double()) * noise_precision**0.5).mean(0)
        torch.testing.assert_close(cdf, torch.full_like(cdf, level), atol=1e-6, rtol=0)
