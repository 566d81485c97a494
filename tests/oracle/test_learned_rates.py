"""Trained rates against the optimum of the ELBO, where that can be computed otherwise.

With a linear model and Gaussian noise the expected loss is in closed form: a mask of mean m and
variance v turns the prediction into m·wᵀx and adds v·Σ w_k² x_k² to the squared error. Given the
rates the best weights solve a ridge regression, which leaves the rates for scipy to optimise. What
is true of this model and this code is also what Gal et al. 2017 claims in general (figures 1d and
6): rates fall with more data and rise with width.

A trained rate is the average of the last iterates, which still carries the noise of the masks. Over
12 seeds of that noise its mean was within 0.008 of the optimum and its standard deviation at most
0.004, so that TOLERANCE is at least 7 of them away, in the last test 12: a false alarm has a
probability below 1e-11 by the normal approximation.
"""

from functools import cache

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import GammaPrior, Gaussian, LearnedGaussian, Likelihood
from dubio.masks import Concrete, LearnableBernoulli
from dubio.masks.mask import LearnedRate

TAU, LENGTH_SCALE = 4.0, 0.5
PRIOR = GammaPrior(2.0, 1.0)
TOLERANCE = 0.03
KINDS: list[type[LearnedRate]] = [LearnableBernoulli, Concrete]
FEW, MANY, NARROW, WIDE = 20, 80, 16, 32


def moments(kind: type[LearnedRate], logit: float) -> tuple[float, float]:
    """Mean and variance of a mask."""
    if kind is LearnableBernoulli:
        return 1.0, float(np.exp(-logit))
    x = np.linspace(-40, 40, 80_001)  # logit u, which is logistic
    weights = scipy.stats.logistic.pdf(x) * (x[1] - x[0])
    soft = scipy.special.expit((logit + x) / 0.1) / scipy.special.expit(logit)
    mean = float(weights @ soft)
    return mean, float(weights @ soft**2) - mean**2


def expected_loss(
    logits: np.ndarray, tau: float, x: Tensor, y: Tensor, kind: type[LearnedRate]
) -> float:
    """N times the expected loss of a linear model at its best weights.

    Gal et al. 2017, eqs. 2–4.
    """
    inputs, targets = x.double().numpy(), y.double().numpy()[:, 0]
    keep = np.broadcast_to(scipy.special.expit(logits), inputs.shape[1])
    mean, variance = np.array([moments(kind, float(logit)) for logit in logits]).T
    design, noise = inputs * mean, np.diag(variance * (inputs**2).sum(0))
    prior = np.diag(LENGTH_SCALE**2 / keep)
    w = np.linalg.solve(tau * (design.T @ design + noise) + prior, tau * design.T @ targets)
    errors = ((targets - design @ w) ** 2).sum() + w @ noise @ w
    nll = tau / 2 * errors - len(targets) / 2 * np.log(tau / (2 * np.pi))
    return float(nll + w @ prior @ w / 2 - scipy.stats.bernoulli(keep).entropy().sum())


def train(mask: LearnedRate, x: Tensor, y: Tensor, likelihood: Likelihood) -> Tensor:
    """The average of the rates over the second half of the steps.

    Rows are repeated so that a batch has many masks for every example.
    """
    layer = nn.Linear(x.shape[1], 1, bias=False)
    nn.init.constant_(layer.weight, 1 / x.shape[1])
    model = dubio.Masked(layer, mask, length_scale=LENGTH_SCALE)
    generator = torch.Generator().manual_seed(0)
    elbo = dubio.ELBO(model, likelihood, len(x), generator=generator)
    optimizer = torch.optim.Adam(elbo.parameters(), lr=0.03)
    repeats = 1000 // len(x)
    x, y = x.repeat(repeats, 1), y.repeat(repeats, 1)
    rates = []
    for _ in range(300):
        optimizer.zero_grad()
        elbo(x, y).backward()
        optimizer.step()
        rates.append(mask.drop)
    return torch.stack(rates[150:]).mean(0)


@cache
def copies(num_data: int, width: int) -> tuple[Tensor, Tensor]:
    """One feature, seen by all units: a wider layer has more of the same to offer."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_data, 1, generator=generator)
    y = 1.5 * x + torch.randn(num_data, 1, generator=generator) / TAU**0.5
    return x.repeat(1, width), y


@cache
def trained(kind: type[LearnedRate], num_data: int, width: int, start: float) -> float:
    return float(train(kind(drop=start), *copies(num_data, width), Gaussian(TAU)))


@cache
def optimal(kind: type[LearnedRate], num_data: int, width: int) -> float:
    x, y = copies(num_data, width)
    best = scipy.optimize.minimize_scalar(
        lambda logit: expected_loss(np.array([logit]), TAU, x, y, kind),
        bounds=(-2, 8),
        method="bounded",
    )
    return float(scipy.special.expit(-best.x))


@pytest.mark.parametrize(
    ("num_data", "width", "start"),
    [(FEW, NARROW, 0.05), (MANY, NARROW, 0.05), (MANY, NARROW, 0.5), (MANY, WIDE, 0.05)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_rate_is_the_optimum(
    kind: type[LearnedRate], num_data: int, width: int, start: float
) -> None:
    expected = optimal(kind, num_data, width)
    assert 0.1 < expected < 0.4  # not where any rate would end
    assert trained(kind, num_data, width, start) == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_rates_fall_with_data_and_rise_with_width(kind: type[LearnedRate]) -> None:
    base = trained(kind, MANY, NARROW, 0.05)
    assert trained(kind, FEW, NARROW, 0.05) > base + 0.1
    assert trained(kind, MANY, WIDE, 0.05) > base + 0.1


def test_rates_of_units_by_what_they_are_worth() -> None:
    """Six features of falling weight, each with a rate of its own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 6, generator=generator)
    weights = torch.tensor([1.0, 0.7, 0.5, 0.3, 0.2, 0.0])
    y = (x @ weights + torch.randn(30, generator=generator) / TAU**0.5)[:, None]
    best = scipy.optimize.minimize(
        lambda logits: expected_loss(logits, TAU, x, y, LearnableBernoulli), np.ones(6)
    )
    expected = scipy.special.expit(-best.x)
    found = train(LearnableBernoulli(6, drop=0.2), x, y, Gaussian(TAU))
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    assert expected.min() < 0.05
    assert expected.max() > 0.4


@pytest.mark.parametrize("prior", [None, PRIOR], ids=str)
def test_rate_and_precision_together(prior: GammaPrior | None) -> None:
    x, y = copies(MANY, NARROW)

    def objective(both: np.ndarray) -> float:
        logit, tau = both[:1], float(np.exp(both[1]))
        log_prior = 0.0
        if prior is not None:
            log_prior = scipy.stats.gamma.logpdf(tau, prior.shape, scale=1 / prior.rate)
        return expected_loss(logit, tau, x, y, LearnableBernoulli) - float(log_prior)

    best = scipy.optimize.minimize(objective, np.array([1.0, 1.0]))
    likelihood = LearnedGaussian(0.5, prior=prior)
    found = train(LearnableBernoulli(drop=0.2), x, y, likelihood)
    assert float(found) == pytest.approx(scipy.special.expit(-best.x[0]), abs=TOLERANCE)
    assert float(likelihood.noise_precision) == pytest.approx(float(np.exp(best.x[1])), rel=0.05)
