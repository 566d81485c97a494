"""Gaussian weights by the kernels: against formulas in float64, torch, threads and levels."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from dubio.layers import streamed
from dubio.layers.centered_prior import CenteredPrior
from dubio.native import philox, stream, weights
from dubio.native.library import LEVELS, LOADED
from dubio.native.stream import Stream
from dubio.native.weights import CHANGE, NO_PRIOR, SAMPLE, SQUARE, GaussianPrior, GaussianWeights

pytestmark = pytest.mark.skipif(LOADED is None, reason="the kernels are not built")

KEY = 0x0123456789ABCDEF
SIZES = [1, 3, 17, 63, 65, 1000, 1024, 1025, 2500]
STARTS = [0, 1, 15, 64, 1023, 1024, 3000]
KINDS = {"sample": SAMPLE, "change": CHANGE, "square": SQUARE}


def numbers(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def noise(draw: int, start: int, count: int) -> Tensor:
    device = torch.device("cpu")
    return philox.normal(KEY, draw, 1, start + count, torch.float64, device)[0, start:]


def made_of(kind: int, mean: Tensor, sigma: Tensor, eps: Tensor) -> Tensor:
    return {SAMPLE: mean + sigma * eps, CHANGE: sigma * eps, SQUARE: sigma**2}[kind]


def divergence(mean: Tensor, sigma: Tensor, center: Any, scale: float) -> Tensor:
    terms = torch.log(scale / sigma) + (sigma**2 + (mean - center) ** 2) / (2 * scale**2) - 0.5
    return terms.sum()


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    assert LOADED is not None
    before, wanted = LOADED.dubio_level(), LEVELS.index(request.param)
    if LOADED.dubio_use_level(wanted) != wanted:
        LOADED.dubio_use_level(before)
        pytest.skip("this processor does not have these instructions")
    yield request.param
    LOADED.dubio_use_level(before)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_those_of_the_formula(kind: str, count: int, start: int) -> None:
    """All in float64 by automatic differentiation; means of the prior for each weight."""
    made, draw = KINDS[kind], 3
    mean, center = numbers(count, 1), numbers(count, 2)
    rho = numbers(count, 3) * 4 - 3
    g, through = numbers(count, 4), numbers(count, 5)
    prior = GaussianPrior(0.7, 0.0, center)
    of = GaussianWeights(mean, rho, 0, start)
    out, of_mean, of_rho = (torch.empty(count) for _ in range(3))
    total = weights.sample(made, Stream(KEY, draw, 1), of, prior, out)
    weights.write_slopes(made, Stream(KEY, draw, 1), of, prior, 0.3, (g, through), of_mean, of_rho)

    mean64, rho64 = (x.double().requires_grad_() for x in (mean, rho))
    sigma = F.softplus(rho64)
    expected = made_of(made, mean64, sigma, noise(draw, start, count))
    kl = divergence(mean64, sigma, center.double(), 0.7)
    loss = (expected * g).sum() + (mean64 * through).sum() + 0.3 * kl
    slopes = torch.autograd.grad(loss, [mean64, rho64])
    torch.testing.assert_close(out.double(), expected.detach(), rtol=2e-6, atol=2e-6)
    assert total == pytest.approx(kl.item(), rel=2e-6, abs=1e-5)
    for got, wanted in zip((of_mean, of_rho), slopes, strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=1e-5)


def test_softplus_is_that_of_torch_from_end_to_end(level: str) -> None:
    rho = torch.cat([torch.linspace(-86, 100, 100_001), torch.tensor([0.0, -0.0, 20.0, 1e4])])
    out = torch.empty_like(rho)
    weights.sample(SQUARE, Stream(0, 0, 1), GaussianWeights(rho, rho, 0, 0), NO_PRIOR, out)
    exact = F.softplus(rho.double(), threshold=700).square()
    there = exact > 1e-37  # the squares of others leave the range
    torch.testing.assert_close(out.double()[there], exact[there], rtol=1e-6, atol=0.0)


def test_divergence_of_a_million_weights_loses_nothing(level: str) -> None:
    count = 1_000_003
    mean, rho = numbers(count, 1) * 0.05, numbers(count, 2) - 5
    got = weights.sample(
        SAMPLE, Stream(0, 0, 1), GaussianWeights(mean, rho, 0, 0), GaussianPrior(1.0), None
    )
    exact = divergence(mean.double(), F.softplus(rho.double()), 0.0, 1.0).item()
    assert got == pytest.approx(exact, rel=1e-7)


def test_broken_parameters_are_not_hidden() -> None:
    for bad in (math.nan, math.inf):
        rho = torch.zeros(100)
        rho[70] = bad
        of, out = GaussianWeights(torch.zeros(100), rho, 0, 0), torch.empty(100)
        total = weights.sample(SAMPLE, Stream(1, 0, 1), of, GaussianPrior(1.0), out)
        assert not math.isfinite(total)
        assert not out[70].isfinite()
        assert out[:70].isfinite().all()


def test_levels_give_the_same(level: str) -> None:
    assert LOADED is not None
    count, start = 5003, 77
    mean, rho, g = (numbers(count, k) for k in range(3))
    found = []
    for _ in range(2):
        out, of_mean, of_rho = (torch.empty(count) for _ in range(3))
        of, prior = GaussianWeights(mean, rho, 0, start), GaussianPrior(0.5, 0.1)
        total = weights.sample(SAMPLE, Stream(KEY, 1, 1), of, prior, out)
        weights.write_slopes(SAMPLE, Stream(KEY, 1, 1), of, prior, 0.2, (g, None), of_mean, of_rho)
        many = weights.spread(Stream(KEY, 1, 3), 77, mean[77:], rho.exp())
        variance = rho.exp()
        drawn = weights.local(Stream(KEY, 1, 1), mean, variance)
        slope = weights.local_slope(Stream(KEY, 1, 1), variance)
        found.append([out, of_mean, of_rho, many, drawn, slope, torch.tensor(total)])
        LOADED.dubio_use_level(0)
    torch.testing.assert_close(*found, rtol=3e-6, atol=3e-6)


def test_threads_do_not_change_a_bit() -> None:
    count = 300_001
    mean, rho, g = (numbers(count, k) for k in range(3))
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            out, of_mean, of_rho = (torch.empty(count) for _ in range(3))
            of, prior = GaussianWeights(mean, rho, 0, 5), GaussianPrior(0.5)
            total = weights.sample(SAMPLE, Stream(KEY, 1, 1), of, prior, out)
            weights.write_slopes(
                SAMPLE, Stream(KEY, 1, 1), of, prior, 0.2, (g, None), of_mean, of_rho
            )
            many = weights.spread(Stream(KEY, 1, 3), 0, mean, rho.exp())
            drawn = weights.local(Stream(KEY, 1, 1), mean, rho.exp())
            slope = weights.local_slope(Stream(KEY, 1, 1), rho.exp())
            total64 = torch.tensor(total, dtype=torch.float64)
            found.append([out, of_mean, of_rho, many, drawn, slope, total64])
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.parametrize("start", [0, 1, 1023, 2000])
def test_spread_is_the_noise_of_every_draw(start: int) -> None:
    mean, sigma = numbers(1500).view(30, 50), numbers(start + 1500, 1).abs()
    many = weights.spread(Stream(KEY, 2, 4), start, mean, sigma)
    for k, one in enumerate(many):
        expected = mean + sigma[start:].view(30, 50) * noise(2 + k, start, 1500).view(30, 50)
        torch.testing.assert_close(one.double(), expected, rtol=2e-6, atol=2e-6)


def test_local_noise_and_its_slopes(level: str) -> None:
    count = 1500
    mean, variance, g = numbers(count), numbers(count, 1).square(), numbers(count, 2)
    eps = noise(1, 0, count)
    variance64 = variance.double().requires_grad_()
    expected = mean + variance64.sqrt() * eps
    (slope,) = torch.autograd.grad((expected * g).sum(), variance64)
    beside = torch.empty(count)
    got = weights.local(Stream(KEY, 1, 1), mean, variance, beside)
    torch.testing.assert_close(got.double(), expected.detach(), rtol=2e-6, atol=2e-6)
    alone = weights.local_slope(Stream(KEY, 1, 1), variance)
    assert torch.equal(alone, beside)
    torch.testing.assert_close((g * alone).double(), slope, rtol=1e-5, atol=1e-5)


def test_local_noise_without_variance_is_the_mean_and_has_no_slope() -> None:
    mean, nothing = numbers(100), torch.zeros(100)
    torch.testing.assert_close(weights.local(Stream(KEY, 1, 1), mean, nothing), mean)
    slope = weights.local_slope(Stream(KEY, 1, 1), nothing)
    assert torch.equal(slope, nothing)


class TestGraph:
    """The functions with gradients, of two layers in one row of noise."""

    @staticmethod
    def parameters() -> tuple[list[Tensor], list[Tensor]]:
        means = [numbers(12).view(3, 4), numbers(3, 1), numbers(6, 2).view(2, 3), numbers(2, 3)]
        rhos = [numbers(15, 4) - 2, numbers(8, 5) - 2]
        return [r.requires_grad_() for r in rhos], [m.requires_grad_() for m in means]

    @staticmethod
    def by_torch(
        kind: int, rhos: list[Tensor], means: list[Tensor], prior: CenteredPrior
    ) -> tuple[Tensor, list[Tensor]]:
        sigma, mean = F.softplus(torch.cat(rhos)), torch.cat([m.flatten() for m in means])
        total = divergence(mean, sigma, prior.center, 0.6)
        row = made_of(kind, mean, sigma, noise(0, 0, 23).float())
        parts = row.split([m.numel() for m in means])
        made = [part.view(m.shape) for part, m in zip(parts, means, strict=True)]
        return total, made if kind == SAMPLE else [*means, *made]

    @pytest.mark.parametrize("kind", KINDS)
    def test_first_and_second_derivatives(self, kind: str) -> None:
        made = KINDS[kind]
        prior = CenteredPrior(dubio.priors.Gaussian(0.6, 0.2), 0.2)
        found = []
        for way in (
            lambda r, m: streamed.draw(made, Stream(KEY, 0, 1), prior, r, m),
            lambda r, m: self.by_torch(made, r, m, prior),
        ):
            rhos, means = self.parameters()
            total, parts = way(rhos, means)
            loss = total * 0.1 + sum([(part**3).sum() for part in parts])
            first = torch.autograd.grad(loss, [*rhos, *means], create_graph=True)
            second = torch.autograd.grad(sum([(g**2).sum() for g in first]), [*rhos, *means])
            again = torch.autograd.grad(way(rhos, means)[0], rhos)  # of the divergence alone
            found.append([total, *parts, *first, *second, *again])
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)

    def test_what_is_not_learned_has_no_gradient(self) -> None:
        rhos, means = self.parameters()
        means[0].requires_grad_(False)
        prior = CenteredPrior(dubio.priors.Gaussian(0.6), 0.0)
        total, parts = streamed.draw(SAMPLE, Stream(KEY, 0, 1), prior, rhos, means)
        (total + sum([part.sum() for part in parts])).backward()
        assert means[0].grad is None
        assert all(p.grad is not None for p in [*rhos, *means[1:]])

    def test_only_parameters_are_kept_for_the_backward_pass(self) -> None:
        kept: list[Tensor] = []

        def note(x: Tensor) -> Tensor:
            kept.append(x)
            return x

        rhos, means = self.parameters()
        prior = CenteredPrior(dubio.priors.Gaussian(0.6), 0.0)
        with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            streamed.draw(SAMPLE, Stream(KEY, 0, 1), prior, rhos, means)
        assert {x.data_ptr() for x in kept} == {x.data_ptr() for x in [*rhos, *means]}


NETWORKS = {
    "small": lambda sampler, prior: nn.Sequential(
        dubio.BayesLinear(7, 9, sampler=sampler, prior=prior), nn.ReLU(),
        dubio.BayesLinear(9, 3, sampler=sampler, prior=prior),
    ),
    "large": lambda sampler, prior: nn.Sequential(
        dubio.BayesLinear(7, 2500, sampler=sampler, prior=prior), nn.ReLU(),
        dubio.BayesLinear(2500, 3, sampler=sampler, prior=prior),
    ),
    "conv": lambda sampler, prior: nn.Sequential(
        nn.Unflatten(1, (1, 7)), dubio.BayesConv1d(1, 4, 3, sampler=sampler, prior=prior),
        nn.ReLU(), nn.Flatten(), dubio.BayesLinear(20, 3, sampler=sampler, prior=prior),
    ),
}  # fmt: skip


class TestNetwork:
    @pytest.mark.parametrize("network", NETWORKS)
    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_a_step_and_a_prediction_are_those_without_kernels(
        self, network: str, sampler: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        torch.manual_seed(0)
        net = NETWORKS[network](sampler, dubio.priors.Gaussian(0.4, mean=0.1))
        x, y = numbers(35).view(5, 7), torch.tensor([0, 1, 2, 0, 1])
        found = []
        for _ in range(2):
            elbo = dubio.ELBO(
                net, dubio.likelihoods.Categorical(), 5, draws=2,
                generator=torch.Generator().manual_seed(1),
            )  # fmt: skip
            loss = elbo(x, y)
            slopes = torch.autograd.grad(loss, list(net.parameters()))
            draws = dubio.predict(net, x, draws=4, generator=2).draws
            shared = dubio.predict(net, x, draws=4, generator=2, shared=True).draws
            found.append([loss, elbo.kl, *slopes, draws, shared])
            for module in (weights, stream):
                monkeypatch.setattr(module, "LOADED", None)
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_the_kernels_are_in_use(self, sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        net = NETWORKS["large"](sampler, dubio.priors.Gaussian(1.0))
        x, y = numbers(35).view(5, 7), torch.tensor([0, 1, 2, 0, 1])
        drawn: list[int] = []
        normal = Stream.normal

        def note(self: Stream, shape: torch.Size, like: Tensor) -> Tensor:
            drawn.append(shape.numel())
            return normal(self, shape, like)

        monkeypatch.setattr(Stream, "normal", note)
        dubio.ELBO(net, dubio.likelihoods.Categorical(), 5)(x, y).backward()
        assert drawn == []

    def test_prior_means_for_each_weight(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch.manual_seed(0)
        layer = nn.Linear(7, 30)
        prior = dubio.priors.Gaussian.around(nn.Linear(7, 30), 0.3)
        net = dubio.Bayesian(layer, prior=prior)
        found = []
        for _ in range(2):
            elbo = dubio.ELBO(
                net, dubio.likelihoods.Categorical(), 5,
                generator=torch.Generator().manual_seed(1),
            )  # fmt: skip
            loss = elbo(numbers(35).view(5, 7), torch.tensor([0, 1, 2, 0, 1]))
            slopes = torch.autograd.grad(loss, list(net.parameters()))
            found.append([loss, elbo.kl, dubio.kl(net), *slopes])
            monkeypatch.setattr(weights, "LOADED", None)
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)

    def test_a_predictor_sees_new_weights(self) -> None:
        torch.manual_seed(0)
        net = NETWORKS["small"]("weights", dubio.priors.Gaussian(1.0))
        x = numbers(35).view(5, 7)
        predictor = dubio.Predictor(net, draws=3)
        predictor(x, generator=0)
        predictor(x, generator=0)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(0.5)
        got = predictor(x, generator=0).draws
        torch.testing.assert_close(got, dubio.predict(net, x, draws=3, generator=0).draws)
