"""Divergences of priors against torch.distributions, integration, and finite differences."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, Normal, kl_divergence

from dubio import priors
from dubio.priors.prior import sum_of_logs
from prior_cases import Case, every_estimated_prior, every_exact_prior, every_prior

SCALE = 0.7


def weights() -> tuple[Tensor, Tensor, Tensor]:
    """Offsets and deviations over many scales, and noise."""
    generator = torch.Generator().manual_seed(0)
    offset = torch.cat(
        [scale * torch.randn(20, dtype=torch.float64, generator=generator) for scale in (0.01, 1.0)]
        + [torch.zeros(3, dtype=torch.float64)]
    )
    deviation = torch.logspace(-4, 0.5, len(offset), dtype=torch.float64)
    return offset, deviation, torch.randn(len(offset), dtype=torch.float64, generator=generator)


def divergence(density: Distribution, mean: float, sigma: float, power: int = 1) -> float:
    """∫ q·log(q/p)^power on a grid of ±12 deviations, split where p may have an edge."""
    q = Normal(torch.tensor(mean).double(), torch.tensor(sigma).double())
    low, high = mean - 12 * sigma, mean + 12 * sigma
    total = 0.0
    for start, end in pairwise(sorted({low, min(max(0.0, low), high), high})):
        w = torch.linspace(start, end, 200_001, dtype=torch.float64)
        ratio = q.log_prob(w) - density.log_prob(w)
        total += float(torch.trapezoid(q.log_prob(w).exp() * ratio**power, w))
    return total


@pytest.mark.parametrize(("mean", "sigma"), [(0.0, 0.1), (0.3, 0.05), (-1.0, 2.0), (0.01, 0.5)])
@every_exact_prior
def test_closed_form_is_the_integral(prior: Case, mean: float, sigma: float) -> None:
    found = prior(SCALE).kl(torch.tensor([mean]).double(), torch.tensor([sigma]).double(), None)
    expected = divergence(prior.density(SCALE), mean, sigma)
    assert float(found) == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_gaussian_is_that_of_torch() -> None:
    offset, deviation, _ = weights()
    expected = kl_divergence(Normal(offset, deviation), Normal(0.0, SCALE)).sum()
    torch.testing.assert_close(priors.Gaussian(SCALE).kl(offset, deviation, None), expected)


@every_estimated_prior
def test_estimate_is_log_q_minus_log_p(prior: Case) -> None:
    offset, deviation, noise = weights()
    w = offset + deviation * noise
    expected = (Normal(offset, deviation).log_prob(w) - prior.density(SCALE).log_prob(w)).sum()
    torch.testing.assert_close(prior(SCALE).kl(offset, deviation, noise), expected)


def test_mixture_holds_where_probabilities_underflow() -> None:
    """exp(−w²/2σ²) is zero in float32 for both components: logarithms must not pass by it."""
    prior = priors.ScaleMixture(0.5, 0.05, math.exp(-8))
    w, sigma, noise = torch.tensor([3.0]), torch.tensor([0.1]), torch.zeros(1)
    expected = -math.log(0.1) - (math.log(0.5) - math.log(0.05) - 0.5 * (3 / 0.05) ** 2)
    assert float(prior.kl(w, sigma, noise)) == pytest.approx(expected, rel=1e-6)


@every_estimated_prior
def test_estimates_average_to_the_divergence(prior: Case) -> None:
    """Against the integral; 2·10⁵ draws, six standard errors: false alarms below 1e-8 for each."""
    mean, sigma, draws = 0.1, 0.2, 200_000
    exact, second = (divergence(prior.density(SCALE), mean, sigma, power) for power in (1, 2))
    noise = torch.randn(draws, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    offset, deviation = (torch.full((draws,), v, dtype=torch.float64) for v in (mean, sigma))
    found = float(prior(SCALE).kl(offset, deviation, noise)) / draws
    assert abs(found - exact) < 6 * math.sqrt((second - exact**2) / draws)


@every_prior
def test_slopes_are_those_of_the_divergence(prior: Case) -> None:
    """By automatic differentiation, which is itself checked by finite differences."""
    offset, deviation, noise = weights()
    inputs = offset.requires_grad_(), deviation.requires_grad_()
    of_mean, of_deviation = torch.full_like(offset, 3.0), torch.full_like(offset, 5.0)
    with torch.no_grad():
        prior(SCALE).add_slopes(of_mean, of_deviation, offset, deviation, noise, 2.0)
    expected = torch.autograd.grad(2 * prior(SCALE).kl(*inputs, noise), inputs)
    torch.testing.assert_close(of_mean - 3, expected[0])
    torch.testing.assert_close(of_deviation - 5, expected[1])
    for k in range(len(offset)):  # one by one: the smallest deviations have the steepest slopes
        one = tuple(v.detach()[k : k + 1].requires_grad_() for v in inputs)
        assert torch.autograd.gradcheck(
            lambda mean, sigma, k=k: prior(SCALE).kl(mean, sigma, noise[k : k + 1]),
            one,
            eps=1e-6 * float(deviation[k].detach()),
            atol=1e-4,
        )


@every_prior
def test_nothing_that_is_given_is_written_over(prior: Case) -> None:
    given = weights()
    before = [tensor.clone() for tensor in given]
    prior(SCALE).kl(*given)
    prior(SCALE).add_slopes(torch.zeros_like(given[0]), torch.zeros_like(given[0]), *given, 1.0)
    assert all(map(torch.equal, given, before))


@pytest.mark.parametrize("low", [1e-4, 1e-30])
@pytest.mark.parametrize("size", [1, 7, 4000, 4003])
def test_sums_of_logarithms_hold_for_all_scales(low: float, size: int) -> None:
    values = torch.logspace(math.log10(low), 3, size)
    torch.testing.assert_close(sum_of_logs(values), values.double().log().sum().float())


@every_prior
def test_sums_over_many_weights_are_precise(prior: Case) -> None:
    """Equal terms, as at the start: rounding errors of a running sum would all go one way."""
    offset, noise = torch.full((2, 2**18), 0.05)
    deviation = torch.full_like(offset, 0.1)
    exact = prior(0.1).kl(offset.double(), deviation.double(), noise.double())
    assert float(prior(0.1).kl(offset, deviation, noise)) == pytest.approx(float(exact), abs=0.2)


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
