"""A network as a model of BoTorch, against predictions, loops over functions and differences."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.draws.prepared import MOST_TAPES
from dubio.likelihoods import Gaussian, HeteroscedasticGaussian, LearnedGaussian

pytest.importorskip("botorch")

from botorch.acquisition import (
    qExpectedImprovement,
    qLogExpectedImprovement,
    qNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms import Log, Standardize
from botorch.optim import optimize_acqf

from dubio.bridges.botorch import FunctionSampler, NetworkModel

# BoTorch prefers logarithms of improvements; without, they are what can be computed by hand.
pytestmark = pytest.mark.filterwarnings("ignore:.*has known numerical issues")

T, D = 7, 2
BOUNDS = torch.tensor([[0.0] * D, [1.0] * D], dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(*shape: int) -> Tensor:
    return torch.rand(*shape, D, generator=generator(1), dtype=torch.float64)


def dropout(outputs: int = 1) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(D, 16),
            nn.Tanh(),
            nn.Dropout(0.3),
            nn.Linear(16, 16),
            nn.Tanh(),
            nn.Dropout(0.3),
            nn.Linear(16, outputs),
        ).double()


def bayes(outputs: int = 1) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(D, 16), nn.Tanh(), nn.Linear(16, outputs)).double()
        return dubio.convert(layers, dubio.rules.bayes(dubio.priors.Gaussian(1.0)))


NETWORKS = [dropout, bayes]


@pytest.mark.parametrize("make", NETWORKS)
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 1)])
def test_moments_are_those_of_the_prediction(
    make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    net, x = make(), points(*shape)
    model = NetworkModel(net, draws=T, generator=0)
    posterior = model.posterior(x)
    p = dubio.predict(net, x.reshape(-1, D), draws=T, shared=True, generator=model.seed)
    torch.testing.assert_close(posterior.mean, p.mean.reshape(*shape, 1))
    torch.testing.assert_close(posterior.variance, p.variance.reshape(*shape, 1))
    values = p.draws.reshape(T, *shape, 1)
    torch.testing.assert_close(posterior.values, values.movedim(0, -3))
    assert model.num_outputs == 1
    assert model.batch_shape == torch.Size()


@pytest.mark.parametrize("make", NETWORKS)
def test_a_sample_is_one_function_of_all_points(make: Callable[[], nn.Module]) -> None:
    """Whatever points it is asked about, together or alone."""
    model, x = NetworkModel(make(), draws=T, generator=0), points(5)
    together = model.posterior(x).values  # (T, 5, 1)
    alone = torch.cat([model.posterior(x[i : i + 1]).values for i in range(5)], dim=-2)
    torch.testing.assert_close(together, alone)
    assert together.var(0).min() > 1e-6


def test_samples_are_all_functions_equally_often() -> None:
    model, x = NetworkModel(dropout(), draws=T, generator=0), points(4, 3)
    posterior = model.posterior(x)
    samples = FunctionSampler(torch.Size([3 * T]), seed=5)(posterior)  # (3T, 4, 3, 1)
    torch.testing.assert_close(samples.mean(0), posterior.mean)
    torch.testing.assert_close(samples.var(0, correction=0), posterior.variance)
    few = FunctionSampler(torch.Size([2, 2]), seed=5)(posterior).flatten(0, 1)
    torch.testing.assert_close(few, samples[:4])
    assert posterior.rsample(torch.Size([6])).shape == (6, 4, 3, 1)


@pytest.mark.parametrize("make", NETWORKS)
def test_gradients_are_finite_differences(make: Callable[[], nn.Module]) -> None:
    net = make()
    model = NetworkModel(net, draws=T, likelihood=Gaussian(4.0), generator=0)
    acquisition = qExpectedImprovement(model, best_f=0.1)

    def value(x: Tensor) -> Tensor:
        return acquisition(x) + model.posterior(
            x, observation_noise=True
        ).rsample_from_base_samples(torch.Size([1]), torch.zeros(1, 4, dtype=torch.long)).sum(
            (0, -1, -2)
        )

    assert torch.autograd.gradcheck(value, points(4, 2).requires_grad_())
    value(points(4, 2).requires_grad_()).sum().backward()
    assert all(weight.grad is None for weight in net.parameters())


def improvement(f: Tensor, best: float) -> Tensor:  # (T, b, q, 1)
    return (f[..., 0].amax(-1) - best).clamp(min=0).mean(0)


@pytest.mark.parametrize("make", NETWORKS)
def test_acquisitions_are_averages_over_functions(make: Callable[[], nn.Module]) -> None:
    net, x, baseline = make(), points(4, 2), points(9)[4:]
    model = NetworkModel(net, draws=T, generator=0)
    f = model.posterior(x).values.movedim(-3, 0)  # (T, 4, 2, 1)
    sampler = FunctionSampler(torch.Size([T]), seed=0)
    torch.testing.assert_close(qExpectedImprovement(model, 0.1, sampler)(x), improvement(f, 0.1))
    log_ei = qLogExpectedImprovement(model, 0.1, sampler, tau_max=1e-4, tau_relu=1e-8)(x)
    torch.testing.assert_close(log_ei.exp(), improvement(f, 0.1), rtol=1e-2, atol=1e-5)
    above = (torch.pi * 0.2 / 2) ** 0.5 * (f - f.mean(0)).abs() + f.mean(0)
    torch.testing.assert_close(
        qUpperConfidenceBound(model, 0.2, sampler)(x), above[..., 0].amax(-1).mean(0)
    )
    known = model.posterior(baseline).values.amax((-2, -1))  # (T,)
    noisy = (f[..., 0].amax(-1) - known[:, None]).clamp(min=0).mean(0)
    plain = qNoisyExpectedImprovement(
        model, baseline, sampler, prune_baseline=False, cache_root=False
    )
    torch.testing.assert_close(plain(x), noisy)
    for kind in (qNoisyExpectedImprovement, qLogNoisyExpectedImprovement):
        assert kind(model, baseline)(x).shape == (4,)


def test_optimisation_finds_the_optimum_of_the_mean() -> None:
    """Against a fine grid, in one dimension."""

    class Bumps(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scale = nn.functional.dropout(torch.ones_like(x), 0.3, training=True)
            return -((x - 0.37) ** 2) + 0.1 * scale * torch.sin(9 * x)

    model = NetworkModel(Bumps(), draws=32, generator=0)
    acquisition = qUpperConfidenceBound(model, beta=0.0)
    best, value = optimize_acqf(
        acquisition, BOUNDS[:, :1], q=1, num_restarts=4, raw_samples=32, options={"seed": 0}
    )
    grid = torch.linspace(0, 1, 10_001, dtype=torch.float64)[:, None, None]
    mean = model.posterior(grid).mean.squeeze()
    assert abs(best.item() - grid[mean.argmax()].item()) < 1e-3
    torch.testing.assert_close(value, mean.max(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("q", [1, 3])
def test_optimize_acqf(q: int) -> None:
    net = dropout().float().train()  # of another precision than the points
    model = NetworkModel(net, draws=16, generator=0)
    acquisition = qLogExpectedImprovement(model, best_f=0.0)
    candidates, value = optimize_acqf(
        acquisition, BOUNDS, q=q, num_restarts=3, raw_samples=16, options={"maxiter": 10}
    )
    assert candidates.shape == (q, D)
    assert candidates.dtype == torch.float64
    at_random = torch.rand(50, q, D, dtype=torch.float64, generator=generator())
    assert value >= acquisition(at_random).max() - 1e-3
    assert net.training


def test_few_recordings_serve_any_number_of_points() -> None:
    net = dropout()
    model = NetworkModel(net, draws=T, generator=0)
    for rows in range(1, 2**MOST_TAPES, 40):
        assert model.posterior(points(rows)).mean.shape == (rows, 1)
    assert len(model._predictor._prepared._recordings) <= MOST_TAPES


def test_observation_noise() -> None:
    net, x = dropout(), points(400)
    model = NetworkModel(net, draws=50, likelihood=Gaussian(4.0), generator=0)
    quiet, noisy = model.posterior(x), model.posterior(x, observation_noise=True)
    p = dubio.predict(net, x, draws=50, shared=True, likelihood=Gaussian(4.0), generator=model.seed)
    torch.testing.assert_close(quiet.variance, p.epistemic)
    torch.testing.assert_close(noisy.variance, p.variance)
    torch.testing.assert_close(noisy.mean, quiet.mean)
    noise = noisy.values - quiet.values  # 20,000 numbers of N(0, 1/4)
    assert abs(noise.mean()) < 5 * 0.5 / 20_000**0.5  # a false alarm in 10⁶
    assert abs(noise.var() - 0.25) < 5 * 0.25 * (2 / 20_000) ** 0.5
    again = model.posterior(x, observation_noise=True)
    torch.testing.assert_close(again.values, noisy.values, rtol=0, atol=0)


def test_likelihoods_that_read_outputs() -> None:
    net, x = dropout(4), points(5, 3)
    model = NetworkModel(net, draws=T, num_outputs=2, likelihood=HeteroscedasticGaussian())
    posterior = model.posterior(x, observation_noise=True)
    assert posterior.mean.shape == (5, 3, 2)
    second = model.posterior(x, output_indices=[1], observation_noise=True)
    torch.testing.assert_close(second.mean, posterior.mean[..., 1:])
    torch.testing.assert_close(second.variance, posterior.variance[..., 1:])
    torch.testing.assert_close(second.values, posterior.values[..., 1:])
    learned_noise = LearnedGaussian(1)
    assert NetworkModel(dropout(), likelihood=learned_noise).posterior(x).mean.shape == (5, 3, 1)
    assert not list(NetworkModel(dropout(), likelihood=learned_noise).children())


def test_outcome_transforms() -> None:
    net, x = dropout(), points(5, 3)
    y = 40 + 8 * torch.randn(30, 1, generator=generator(), dtype=torch.float64)
    standardize = Standardize(1)
    standardize(y)
    standardize.eval()
    for noise in (False, True):
        plain = NetworkModel(net, draws=T, likelihood=Gaussian(4.0), generator=0)
        model = NetworkModel(
            net,
            draws=T,
            likelihood=Gaussian(4.0),
            generator=0,
            outcome_transform=standardize,
        )
        inner = plain.posterior(x, observation_noise=noise)
        outer = model.posterior(x, observation_noise=noise)
        torch.testing.assert_close(outer.mean, y.mean() + y.std() * inner.mean)
        torch.testing.assert_close(outer.variance, y.var() * inner.variance)
        torch.testing.assert_close(outer.values, y.mean() + y.std() * inner.values)
    model = NetworkModel(net, draws=T, generator=0, outcome_transform=Log())
    values = NetworkModel(net, draws=T, generator=0).posterior(x).values.exp()
    torch.testing.assert_close(model.posterior(x).mean, values.mean(-3))


def test_a_posterior_transform() -> None:
    model, x = NetworkModel(dropout(2), draws=T, num_outputs=2, generator=0), points(4, 3)
    posterior = model.posterior(x)
    transformed = model.posterior(x, posterior_transform=lambda p, X: (p, X))
    assert torch.equal(transformed[0].values, posterior.values)
    assert transformed[1] is x


def test_seeds() -> None:
    net, x = dropout(), points(5)
    one, same = (NetworkModel(net, draws=T, generator=3).posterior(x).values for _ in range(2))
    assert torch.equal(one, same)
    assert not torch.equal(one, NetworkModel(net, draws=T, generator=4).posterior(x).values)
    source = generator()
    models = [NetworkModel(net, draws=T, generator=source) for _ in range(3)]
    assert all(a.seed != b.seed for a, b in pairwise(models))
    before = torch.get_rng_state()
    NetworkModel(net, generator=0).posterior(x)
    assert torch.equal(before, torch.get_rng_state())


def test_weights_that_change_are_seen() -> None:
    net, x = dropout(), points(5)
    model = NetworkModel(net, draws=T, generator=0)
    before = model.posterior(x).values
    with torch.no_grad():
        net.get_parameter("6.bias").add_(1.0)
    torch.testing.assert_close(model.posterior(x).values, before + 1)


def test_errors_say_what_to_do() -> None:
    model = NetworkModel(dropout(), draws=T)
    for wrong in (torch.rand(D), torch.zeros(3, D, dtype=torch.long), torch.rand(0, D), [[0.5]]):
        with pytest.raises(ValueError, match=r"X: expected at least one point.*x\[None, None\]"):
            model.posterior(wrong)
    with pytest.raises(ValueError, match="num_outputs="):
        NetworkModel(dropout(3), draws=T, num_outputs=2).posterior(points(4))
    with pytest.raises(ValueError, match="num_outputs: expected a positive int, got 0"):
        NetworkModel(dropout(), num_outputs=0)
    with pytest.raises(UnsupportedError, match=r"dubio\.fit"):
        model.condition_on_observations(points(1), torch.zeros(1, 1))
    with pytest.raises(UnsupportedError, match="likelihood with noise, got Point"):
        model.posterior(points(4), observation_noise=True)
    with pytest.raises(UnsupportedError, match="got a tensor"):
        model.posterior(points(4), observation_noise=torch.ones(1, 1))
    with pytest.raises(dubio.NoSitesError):
        NetworkModel(nn.Linear(D, 1).double()).posterior(points(4))
