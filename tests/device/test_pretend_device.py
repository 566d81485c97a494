"""dubio on a device that is not the CPU, by `make device`: nothing mixes, nothing moves unasked."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import dubio
from dubio import calibrate, decide, likelihoods, masks, metrics, priors, rules
from dubio.layers.exact_linear import ExactLinear
from dubio.noise import float64
from networks import CASES, build

if not os.environ.get("DUBIO_DEVICE"):
    pytest.skip("compiles a device: run `make device`", allow_module_level=True)

import pretend_device

DEVICE = "pretend"
_build = Path(os.environ["DUBIO_DEVICE"])
_build.mkdir(parents=True, exist_ok=True)
_device = pretend_device.start(_build)
GATED = ("guarded", "gated module", "causal attention", "left padded")


@pytest.fixture(autouse=True, params=["like CUDA", "like MPS"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """With float64, or without; and no global generator may move."""
    refuses = request.param == "like MPS"
    if refuses:
        monkeypatch.setattr(float64, "_WITHOUT", frozenset({"mps", DEVICE}))
    _device.refuse_float64(refuses)
    yield request.param
    _device.refuse_float64(False)


def unmoved(compute: Callable[[], Any]) -> Any:
    """What is computed; torch's global generators stay where they were."""
    cpu, own = torch.get_rng_state(), torch.pretend.get_rng_state()
    found = compute()
    assert torch.equal(cpu, torch.get_rng_state())
    assert torch.equal(own, torch.pretend.get_rng_state())
    return found


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_predict_equals_a_loop_and_a_stream_of_cpu_batches(name: str, shared: bool) -> None:
    case = CASES[name]
    if shared and not case.shareable:
        pytest.skip("no draw is one function of a row")
    network, x = build(name)
    network.to(DEVICE)
    options: Any = {"draws": 5, "generator": 0, "shared": shared, "select": case.select}
    p = unmoved(lambda: dubio.predict(network, x.to(DEVICE), chunk=3, **options))
    assert p.draws.device.type == DEVICE
    close(p.draws, unmoved(lambda: dubio.predict(network, [(x, x)], **options)).draws)
    predictor = dubio.Predictor(network, draws=5, shared=shared, select=case.select)
    for _ in range(2):
        close(p.draws, unmoved(lambda: predictor(x.to(DEVICE), 0)).draws)
    if case.taped and name not in GATED:
        noise = dubio.Noise(5, shared=shared, generator=0)
        with torch.no_grad(), noise[4]:
            output = network(x.to(DEVICE))
        close(p.draws[4], output if case.select is None else output[case.select])


def dropout_network(outputs: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, outputs),
    )  # fmt: skip


NOISY: dict[str, Callable[[], nn.Module]] = {
    "dropout": dropout_network,
    "concrete": lambda: dubio.convert(dropout_network(), rules.replace_dropout(masks.Concrete)),
    "bernoulli": lambda: dubio.convert(
        dropout_network(), rules.replace_dropout(masks.LearnableBernoulli)
    ),
    "gaussian": lambda: dubio.convert(
        dropout_network(), rules.replace_dropout(masks.LearnableGaussian)
    ),
    "bayes": lambda: dubio.convert(dropout_network(), rules.bayes(priors.Gaussian(0.1))),
    "mixture": lambda: dubio.convert(
        dropout_network(), rules.bayes(priors.ScaleMixture(0.5, 1.0, 0.1))
    ),
    "flipout": lambda: nn.Sequential(
        dubio.BayesLinear(6, 8, sampler="local"), dubio.BayesLinear(8, 3, sampler="flipout")
    ),
    "drop connect": lambda: nn.Sequential(
        dubio.DropConnect(nn.Linear(6, 8), masks.Concrete()), nn.Linear(8, 3)
    ),
}


@pytest.mark.parametrize("name", NOISY)
def test_networks_learn_and_predict(name: str) -> None:
    network = NOISY[name]().to(DEVICE)
    x, y = torch.randn(12, 6), torch.randint(3, (12,))
    likelihood = likelihoods.Categorical()
    estimators: Any = ("trapezoid", "corrected", "disarm", "arm") if name == "bernoulli" else (
        "trapezoid",
    )  # fmt: skip
    sources = (None, torch.Generator().manual_seed(1), torch.Generator(DEVICE).manual_seed(1))
    for estimator in estimators:
        for generator in sources:
            for shared in (False, True):
                elbo = dubio.ELBO(
                    network, likelihood, 12, draws=2, estimator=estimator, generator=generator,
                    shared=shared,
                )  # fmt: skip
                elbo(x.to(DEVICE), y.to(DEVICE)).backward()
                for weight in network.parameters():
                    assert weight.grad is None or bool(weight.grad.isfinite().all())
    elbo = dubio.ELBO(network, likelihood, 12)
    dubio.fit(elbo, (x, y), epochs=1, batch_size=5, progress=False)
    dubio.fit(elbo, [(x, y)], epochs=1, clip_norm=1.0, progress=False)
    for shared in (False, True):
        p = unmoved(
            lambda shared=shared: dubio.predict(
                network, x.to(DEVICE), likelihood=likelihood, generator=0, shared=shared
            )
        )
        assert p.mean.device.type == DEVICE
    streamed = dubio.predict(
        network, [(x, y)], likelihood=likelihood, generator=0, shared=True, keep_draws=False
    )
    close(streamed.log_prob(y.to(DEVICE)), p.log_prob(y.to(DEVICE)))


class Random(nn.Module):
    """All ways to draw random numbers by oneself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.randn_like(x) + torch.rand(x.shape, device=x.device)
        x = x + torch.empty_like(x).normal_() + torch.bernoulli(torch.full_like(x, 0.5))
        x = x + torch.normal(torch.zeros_like(x), 1.0) + torch.randperm(6, device=x.device)
        return self.linear(nn.functional.rrelu(x, training=True))  # the last is seen by no one


def test_own_random_numbers_are_those_of_the_device() -> None:
    network, x = Random().to(DEVICE), torch.randn(4, 6, device=DEVICE)
    one, same = (unmoved(lambda: dubio.predict(network, x, draws=4, generator=0)) for _ in range(2))
    close(one.draws, same.draws)
    assert bool((one.std > 0).all())


def test_the_default_device_is_that_of_new_random_numbers() -> None:
    class Default(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand(x.shape)

    with torch.device(DEVICE):
        dubio.predict(Default(), torch.zeros(4, 6), draws=3, generator=0)


LIKELIHOODS: dict[str, tuple[likelihoods.Likelihood, Tensor]] = {
    "categorical": (likelihoods.Categorical(), torch.arange(12) % 4),
    "bernoulli": (likelihoods.Bernoulli(), torch.ones(12, 4)),
    "gaussian": (likelihoods.Gaussian(2.0), torch.randn(12, 4)),
    "heteroscedastic": (likelihoods.HeteroscedasticGaussian(), torch.randn(12, 2)),
    "student": (likelihoods.StudentT(4.0), torch.randn(12, 2)),
    "laplace": (likelihoods.Laplace(), torch.randn(12, 2)),
    "poisson": (likelihoods.Poisson(), torch.ones(12, 4)),
    "negative binomial": (likelihoods.NegativeBinomial(), torch.ones(12, 2)),
    "multinomial": (likelihoods.Multinomial(), torch.ones(12, 4)),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_predictions_are_those_of_the_cpu(name: str) -> None:
    likelihood, y = LIKELIHOODS[name]
    network = dropout_network(4).to(DEVICE)
    x, there = torch.randn(12, 6, device=DEVICE), y.to(DEVICE)
    p = dubio.predict(network, x, draws=8, likelihood=likelihood, generator=0)
    home = p.to("cpu")
    close(p.mean, home.mean)
    close(p.variance, home.variance)
    close(p.log_prob(there), home.log_prob(y))
    assert p.sample(3, generator=0).device.type == DEVICE
    if name != "multinomial":
        assert p.interval(0.9).low.device.type == DEVICE
        close(p.interval(0.9).low, home.interval(0.9).low)
    if likelihood.discrete:
        close(p.mutual_information, home.mutual_information)
        close(metrics.nll(p, there), metrics.nll(home, y))
    elif name != "multinomial":
        close(p.cdf(there), home.cdf(y))
        for metric in (metrics.crps, metrics.rmse, metrics.lppd):
            close(metric(p, there), metric(home, y))


def test_scores_calibration_and_deferral() -> None:
    network = dropout_network(4).to(DEVICE)
    x = torch.randn(40, 6, device=DEVICE)
    p = dubio.predict(network, x, draws=8, likelihood=likelihoods.Categorical(), generator=0)
    y = torch.where(torch.arange(40) < 30, p.mean.argmax(-1).cpu(), torch.arange(40) % 4)
    there, home = y.to(DEVICE), p.to("cpu")
    for metric in (metrics.ece, metrics.brier, metrics.aurc, metrics.ace):
        close(metric(p, there), metric(home, y))
    close(metrics.pavgpu(p, there).mean, metrics.pavgpu(home, y).mean)
    for metric_class in (metrics.ECE, metrics.AURC, metrics.PAvgPU):
        streaming = metric_class().to(DEVICE)
        streaming.update(p, there)
        streaming.compute()
    for where in ("cpu", DEVICE):
        scaling = calibrate.TemperatureScaling().to(where).fit(p, there)
        close(scaling(p).mean, scaling.to("cpu")(home).mean)
        sets = calibrate.LeastAmbiguousSets(0.2).to(where).fit(p, there)
        close(sets(p).members, sets.to("cpu")(home).members)
        deferral = decide.Deferral("entropy", confidence=0.5).to(where).fit_coverage(p, 0.5)
        close(deferral(p).answered, deferral.to("cpu")(home).answered)
    assert decide.acquire(p, 3, "batchbald").device.type == DEVICE
    numbers = dubio.predict(network, x, draws=8, likelihood=likelihoods.Gaussian(1.0), generator=0)
    targets = torch.randn(40, 4)
    for calibration in (
        calibrate.PrecisionScaling(), calibrate.VarianceScaling(),
        calibrate.StandardisedIntervals(0.2), calibrate.QuantileIntervals(0.2),
    ):  # fmt: skip
        calibration.to(DEVICE).fit(numbers, targets.to(DEVICE))(numbers)


def test_exact_layers_bandits_and_populations() -> None:
    exact = nn.Sequential(nn.Linear(6, 5), ExactLinear(5, 3)).to(DEVICE).eval()
    actions = torch.randint(3, (9,), device=DEVICE)
    rows, rewards = torch.randn(9, 5, device=DEVICE), torch.randn(9, device=DEVICE)
    exact[1].condition(rows, actions, rewards)
    dubio.predict(exact, torch.randn(4, 6, device=DEVICE), draws=3, generator=0)
    for rule in ("thompson", "greedy", "epsilon", "upper"):
        agent = decide.Bandit(
            dropout_network().to(DEVICE), 3, likelihood=likelihoods.Gaussian(1.0), rule=rule
        )
        agent.update(agent.choose(torch.randn(12, 6)).id, torch.randn(12))
    x, y = torch.randn(12, 6, device=DEVICE), torch.randn(12, 1, device=DEVICE)
    members = [
        dubio.ELBO(dropout_network(1).to(DEVICE), likelihoods.Gaussian(1.0), 12) for _ in range(2)
    ]
    population = dubio.Population(members)
    population.fit(x, y, epochs=1, batch_size=4)
    population.evaluate(x, y, draws=3)
    likelihood = likelihoods.LearnedGaussian().to(DEVICE)
    dubio.m_step(members[0].model, likelihood, [(x.cpu(), y.cpu())], draws=3)


def test_a_batch_elsewhere_is_an_error_and_a_stream_moves() -> None:
    network, x = dropout_network().to(DEVICE), torch.randn(4, 6)
    with pytest.raises(ValueError, match=r"x: expected a tensor on pretend:0"):
        dubio.predict(network, x)
    with pytest.raises(ValueError, match=r"x: expected a tensor on pretend:0"):
        dubio.ELBO(network, likelihoods.Categorical(), 4)(x, torch.zeros(4).long())
    dubio.sites(network, [x])


def test_packed_sequences_move_without_their_lengths() -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(6, 4, 2, dropout=0.5)

        def forward(self, packed: Any) -> Tensor:
            return self.rnn(packed)[1][0][-1]

    packed = pack_padded_sequence(torch.randn(5, 3, 6), torch.tensor([5, 4, 2]))
    p = dubio.predict(Reader().to(DEVICE), [((packed,), 0)], draws=3, generator=0)
    assert p.draws.device.type == DEVICE


def test_autocast_of_the_device_is_remembered() -> None:
    network, x = dropout_network().to(DEVICE), torch.randn(4, 6, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        p = dubio.predict(network, x, draws=3, generator=0, keep_draws=False)
        kept = dubio.predict(network, x, draws=3, generator=0)
    again = torch.cat([outputs for _, outputs in p.source.chunks()])
    assert again.dtype == kept.draws.dtype
    close(again, kept.draws)
