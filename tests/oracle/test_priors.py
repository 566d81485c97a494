"""Divergences of priors against torch.distributions, integration, and finite differences."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.distributions import (
    Categorical,
    Distribution,
    Laplace,
    MixtureSameFamily,
    Normal,
    kl_divergence,
)

from dubio import priors
from dubio.priors import Prior
from dubio.priors.prior import sum_of_logs

CASES: dict[str, tuple[Prior, Distribution]] = {
    "gaussian": (priors.Gaussian(0.7), Normal(0.0, 0.7)),
    "laplace": (priors.Laplace(0.3), Laplace(0.0, 0.3)),
    "mixture": (
        priors.ScaleMixture(0.25, 1.5, 0.02),
        MixtureSameFamily(
            Categorical(torch.tensor([0.25, 0.75], dtype=torch.float64)),
            Normal(torch.zeros(2).double(), torch.tensor([1.5, 0.02]).double()),
        ),
    ),
}


def weights() -> tuple[Tensor, Tensor, Tensor]:
    """Offsets and deviations over many scales, and noise."""
    generator = torch.Generator().manual_seed(0)
    offset = torch.cat(
        [scale * torch.randn(20, dtype=torch.float64, generator=generator) for scale in (0.01, 1.0)]
        + [torch.zeros(3, dtype=torch.float64)]
    )
    deviation = torch.logspace(-4, 0.5, len(offset), dtype=torch.float64)
    return offset, deviation, torch.randn(len(offset), dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_closed_form_is_the_integral(name: str) -> None:
    """∫ q log(q/p) on a fine grid of ±12 deviations, split where the density p has its edge."""
    prior, density = CASES[name]
    for mean, sigma in [(0.0, 0.1), (0.3, 0.05), (-1.0, 2.0), (0.01, 0.5)]:
        q = Normal(torch.tensor(mean).double(), torch.tensor(sigma).double())
        ends = sorted({mean - 12 * sigma, min(max(0.0, mean - 12 * sigma), mean + 12 * sigma),
                       mean + 12 * sigma})  # fmt: skip
        total = 0.0
        for low, high in pairwise(ends):
            w = torch.linspace(low, high, 200_001, dtype=torch.float64)
            values = q.log_prob(w).exp() * (q.log_prob(w) - density.log_prob(w))
            total += float(torch.trapezoid(values, w))
        found = prior.kl(torch.tensor([mean]).double(), torch.tensor([sigma]).double(), None)
        assert float(found) == pytest.approx(total, rel=1e-6, abs=1e-8)


def test_gaussian_is_that_of_torch() -> None:
    offset, deviation, _ = weights()
    expected = kl_divergence(Normal(offset, deviation), CASES["gaussian"][1]).sum()
    torch.testing.assert_close(priors.Gaussian(0.7).kl(offset, deviation, None), expected)


def test_mixture_is_log_q_minus_log_p() -> None:
    offset, deviation, noise = weights()
    prior, density = CASES["mixture"]
    w = offset + deviation * noise
    expected = (Normal(offset, deviation).log_prob(w) - density.log_prob(w)).sum()
    torch.testing.assert_close(prior.kl(offset, deviation, noise), expected)


def test_mixture_holds_where_probabilities_underflow() -> None:
    """exp(−w²/2σ²) is zero in float32 for both components: logarithms must not pass by it."""
    prior = priors.ScaleMixture(0.5, 0.05, math.exp(-8))
    w, sigma, noise = torch.tensor([3.0]), torch.tensor([0.1]), torch.zeros(1)
    expected = -math.log(0.1) - (math.log(0.5) - math.log(0.05) - 0.5 * (3 / 0.05) ** 2)
    assert float(prior.kl(w, sigma, noise)) == pytest.approx(expected, rel=1e-6)


def test_estimates_of_the_mixture_average_to_its_divergence() -> None:
    """Against the integral; 2·10⁵ draws, five standard errors: false alarms below 1e-6."""
    prior, density = CASES["mixture"]
    mean, sigma, draws = 0.1, 0.2, 200_000
    w = torch.linspace(mean - 12 * sigma, mean + 12 * sigma, 400_001, dtype=torch.float64)
    q = Normal(torch.tensor(mean).double(), torch.tensor(sigma).double())
    ratio = q.log_prob(w) - density.log_prob(w)
    exact = float(torch.trapezoid(q.log_prob(w).exp() * ratio, w))
    second = float(torch.trapezoid(q.log_prob(w).exp() * ratio.square(), w))
    noise = torch.randn(draws, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    offset, deviation = (torch.full((draws,), v, dtype=torch.float64) for v in (mean, sigma))
    found = float(prior.kl(offset, deviation, noise)) / draws
    assert abs(found - exact) < 5 * math.sqrt((second - exact**2) / draws)


@pytest.mark.parametrize("name", CASES)
def test_slopes_are_finite_differences(name: str) -> None:
    prior, _ = CASES[name]
    offset, deviation, noise = weights()
    by_mean, by_deviation = torch.zeros_like(offset), torch.zeros_like(offset)
    prior.add_slopes(by_mean, by_deviation, offset, deviation, noise, 2.0)
    for k in range(len(offset)):
        step = 1e-6 * float(deviation[k])
        for slope, mean_step, deviation_step in ((by_mean, step, 0.0), (by_deviation, 0.0, step)):
            ends = [
                prior.kl(
                    offset[k : k + 1] + sign * mean_step,
                    deviation[k : k + 1] + sign * deviation_step,
                    noise[k : k + 1],
                )
                for sign in (-1, 1)
            ]
            found = 2 * float(ends[1] - ends[0]) / (2 * step)
            assert float(slope[k]) == pytest.approx(found, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("low", [1e-4, 1e-30])
@pytest.mark.parametrize("size", [1, 7, 4000, 4003])
def test_sums_of_logarithms_hold_for_all_scales(low: float, size: int) -> None:
    values = torch.logspace(math.log10(low), 3, size)
    torch.testing.assert_close(sum_of_logs(values), values.double().log().sum().float())


@pytest.mark.parametrize(
    "prior", [priors.Gaussian(0.1), priors.Laplace(0.1), priors.ScaleMixture(0.5, 0.1, 0.1)]
)
def test_sums_over_many_weights_are_precise(prior: Prior) -> None:
    """Equal terms, as at the start: rounding errors of a running sum would all go one way."""
    offset, noise = torch.full((2, 2**18), 0.05)
    deviation = torch.full_like(offset, 0.1)
    exact = prior.kl(offset.double(), deviation.double(), noise.double())
    assert float(prior.kl(offset, deviation, noise)) == pytest.approx(float(exact), abs=0.2)


def test_no_divergence_from_itself() -> None:
    prior = priors.Gaussian(0.5)
    zero, half = torch.zeros(7).double(), torch.full((7,), 0.5).double()
    assert float(prior.kl(zero, half, None)) == pytest.approx(0, abs=1e-12)
    slopes = torch.zeros(2, 7).double()
    prior.add_slopes(*slopes, zero, half, None, 1.0)
    torch.testing.assert_close(slopes, torch.zeros(2, 7).double(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: priors.Gaussian(-1.0), "sigma: expected a positive number, got -1.0"),
        (lambda: priors.Gaussian(0.0), "sigma"),
        (lambda: priors.Laplace(-0.1), "scale: expected a positive number"),
        (lambda: priors.ScaleMixture(0.0, 1, 0.1), "pi: expected a share between 0 and 1, got 0.0"),
        (lambda: priors.ScaleMixture(1.2, 1, 0.1), "pi"),
        (lambda: priors.ScaleMixture(0.5, -1, 0.1), "sigma1"),
        (lambda: priors.ScaleMixture(0.5, 1, math.inf), "sigma2"),
        (lambda: priors.ScaleMixture("a", 1, 1), "pi"),
        (lambda: priors.Gaussian("a"), "sigma: expected a positive number, got 'a'"),
        (lambda: priors.Gaussian(torch.tensor(1.0, requires_grad=True)), "sigma"),
        (lambda: priors.Gaussian(1.0, mean=torch.tensor(0.5)), "mean: expected a number"),
        (lambda: priors.Laplace(1.0, mean="x"), "mean: expected a number, .* got 'x'"),
        (lambda: priors.ScaleMixture(0.5, 1, 0.1, mean=math.nan), "mean"),
        (
            lambda: priors.Gaussian(1.0, mean={"weight": 0.5}),
            "mean: expected a number, or a tensor",
        ),
    ],
)
def test_wrong_arguments(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
