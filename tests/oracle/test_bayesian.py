"""Layers with Gaussian weights against the definition: w = μ + softplus(ρ)·ε for a pass."""

import copy
import dataclasses
import io
import math
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

import dubio
from dubio import Bayesian, priors
from prior_cases import Case, every_prior

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(5, 3), (6, 5)),
    "no bias": (lambda: nn.Linear(5, 3, bias=False), (6, 5)),
    "linear on sequences": (lambda: nn.Linear(5, 3), (6, 4, 5)),
    "conv1d": (lambda: nn.Conv1d(2, 4, 3), (6, 2, 7)),
    "conv2d": (lambda: nn.Conv2d(2, 4, 3, padding=1, groups=2), (6, 2, 5, 5)),
    "reflecting": (lambda: nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), (6, 2, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (6, 1, 3, 3, 3)),
    "transposed": (lambda: nn.ConvTranspose1d(2, 4, 3, stride=2), (6, 2, 5)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(2, 4, 3, stride=2), (6, 2, 4, 4)),
    "embedding": (lambda: nn.Embedding(9, 4), (6, 3)),
    "embedding with padding": (lambda: nn.Embedding(9, 4, padding_idx=2), (6, 3)),
    "lstm": (lambda: nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True), (6, 7, 4)),
    "lstm without bias": (lambda: nn.LSTM(4, 3, bias=False, batch_first=True), (6, 7, 4)),
    "projecting lstm": (lambda: nn.LSTM(4, 3, proj_size=2, batch_first=True), (6, 7, 4)),
    "gru": (lambda: nn.GRU(4, 3), (7, 6, 4)),
    "rnn": (lambda: nn.RNN(4, 3), (7, 6, 4)),
    "attention": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), (6, 5, 4)),
    "attention on others": (
        lambda: nn.MultiheadAttention(4, 2, kdim=4, vdim=4, batch_first=True, add_bias_kv=True),
        (6, 5, 4),
    ),
    "separate projections": (lambda: _separate_projections(), (6, 5, 4)),
    "block": (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), (6, 5, 4)),
}
LINEAR = [
    "linear", "no bias", "linear on sequences", "conv1d", "conv2d", "reflecting", "conv3d",
    "transposed", "transposed 2d",
]  # fmt: skip
SAMPLERS = [(name, "weights") for name in LAYERS] + [
    (name, sampler) for name in LINEAR for sampler in ("local", "flipout")
]


def _separate_projections() -> nn.MultiheadAttention:
    layer = nn.MultiheadAttention(4, 2, kdim=3, vdim=2, batch_first=True)
    assert layer.in_proj_weight is None
    return layer


class Called(nn.Module):
    """Calls a layer as its kind is called, and gives the first of its outputs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        inner = self.layer.layer if isinstance(self.layer, Bayesian) else self.layer
        if isinstance(inner, nn.Embedding):
            return self.layer((x * 100).long().abs() % inner.num_embeddings)
        if isinstance(inner, nn.MultiheadAttention):
            key, value = x[..., : inner.kdim], x[..., : inner.vdim]
            return self.layer(x, key, value)[0]
        out = self.layer(x)
        return out[0] if isinstance(out, tuple) else out


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(name: str, **options: Any) -> tuple[Called, Tensor]:
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    return Called(Bayesian(make(), **{"deviation": 0.3, **options})), torch.randn(shape)


def noise_of(module: Bayesian, noise: dubio.Noise) -> Tensor:
    """ε of a layer that is the first site."""
    return noise.numbers.normal((0, 0), module.rho.shape, module.rho.detach())[0]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported")
@pytest.mark.parametrize("name", LAYERS)
def test_is_the_layer_with_sampled_weights(name: str) -> None:
    net, x = build(name)
    noise = dubio.Noise(generator=seeded())
    with noise:
        out = net(x)
    module = net.layer
    expected = copy.deepcopy(module.layer)
    sampled = module.rho.detach().double().exp().log1p().float() * noise_of(module, noise)
    parts = iter(sampled.split([p.numel() for p in expected.parameters()]))
    with torch.no_grad():
        for weight in expected.parameters():
            weight.add_(next(parts).view_as(weight))
        if getattr(expected, "padding_idx", None) is not None:
            expected.weight[expected.padding_idx] = 0
    torch.testing.assert_close(out, Called(expected.train())(x))


@pytest.mark.parametrize(("name", "sampler"), SAMPLERS)
def test_eval_is_the_layer_itself(name: str, sampler: Any) -> None:
    net, x = build(name, sampler=sampler)
    plain = Called(copy.deepcopy(net.layer.layer))
    assert torch.equal(net.eval()(x), plain.eval()(x))
    fresh = [net.train()(x) for _ in range(2)]
    assert not torch.equal(*fresh)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("name", "sampler"), [case for case in SAMPLERS if case[0] not in ("gru", "rnn")]
)  # whose rows come second
def test_predict_gives_the_draws_of_the_noise_for_any_chunk(
    name: str, sampler: Any, shared: bool
) -> None:
    net, x = build(name, sampler=sampler)
    before = copy.deepcopy(net.state_dict())
    objects = dict(net.named_parameters())
    found = dubio.predict(net, x, draws=5, shared=shared, generator=seeded(), chunk=2)
    whole = dubio.predict(net, x, draws=5, shared=shared, generator=seeded())
    torch.testing.assert_close(found.draws, whole.draws)
    noise = dubio.Noise(5, shared=shared, generator=seeded())
    for k in range(5):
        with torch.no_grad(), noise[k]:
            torch.testing.assert_close(net(x), found.draws[k])
    assert not torch.equal(found.draws[0], found.draws[1])
    assert all(objects[n] is p for n, p in net.named_parameters())
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key])


@pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
def test_rows_share_their_noise_if_asked_to(sampler: Any) -> None:
    """Then a draw is one function: equal rows have equal outputs, and it is linear."""
    net, x = build("linear", sampler=sampler)
    rows = torch.stack([x[0], x[0], x[1], x[0] + x[1], torch.zeros(5)])
    found = dubio.predict(net, rows, draws=4, shared=True).draws
    torch.testing.assert_close(found[:, 0], found[:, 1])
    torch.testing.assert_close(found[:, 0] + found[:, 2], found[:, 3] + found[:, 4])
    if sampler != "weights":
        apart = dubio.predict(net, rows, draws=4, generator=seeded()).draws
        assert (apart[:, 0] - apart[:, 1]).abs().max() > 1e-4  # some signs may be the same


def test_one_draw_for_all_calls_of_a_pass() -> None:
    net, x = build("linear")

    def twice(x: Tensor) -> Tensor:
        return torch.stack([net(x), net(x)], 1)

    found = dubio.predict(twice, x, draws=3).draws
    assert torch.equal(found[:, :, 0], found[:, :, 1])
    with dubio.Noise():
        assert torch.equal(net(x), net(x))


def test_one_draw_per_sequence() -> None:
    """An LSTM fed step by step under one draw is the LSTM fed at once."""
    net, x = build("lstm without bias")
    with dubio.Noise(generator=seeded()):
        whole = net(x)
    steps, state = [], None
    with dubio.Noise(generator=seeded()):
        for t in range(x.shape[1]):
            out, state = net.layer(x[:, t : t + 1], state)
            steps.append(out)
    torch.testing.assert_close(torch.cat(steps, 1), whole)


class TestDivergence:
    @pytest.mark.parametrize("name", LAYERS)
    def test_is_the_sum_over_all_weights(self, name: str) -> None:
        """Each weight once: all layers and directions of an LSTM, all projections of attention."""
        net, _ = build(name, prior=priors.Gaussian(0.4), deviation=0.05)
        weights = torch.cat([p.detach().flatten() for p in net.layer.layer.parameters()])
        if net.layer.kept is not None:
            weights = weights[net.layer.kept]
        each = kl_divergence(Normal(weights, torch.tensor(0.05)), Normal(0.0, 0.4))
        assert float(dubio.kl(net).detach()) == pytest.approx(float(each.double().sum()), rel=1e-5)

    def test_is_the_sum_over_layers(self) -> None:
        net = nn.Sequential(dubio.BayesLinear(5, 4), nn.ReLU(), dubio.BayesLinear(4, 3))
        parts = [float(net[k].kl().detach()) for k in (0, 2)]
        assert float(dubio.kl(net).detach()) == pytest.approx(sum(parts), rel=1e-6)
        assert parts[0] / parts[1] == pytest.approx((5 * 4 + 4) / (4 * 3 + 3), rel=0.02)

    def test_tied_layers_count_once(self) -> None:
        layer = dubio.BayesLinear(4, 4)
        assert dubio.kl(nn.Sequential(layer, nn.ReLU(), layer)) == layer.kl()

    def test_has_the_right_direction(self) -> None:
        net, _ = build("linear", prior=priors.Gaussian(2.0), deviation=0.1)
        weights = torch.cat([p.detach().flatten() for p in net.layer.layer.parameters()])
        q, p = Normal(weights, torch.tensor(0.1)), Normal(0.0, 2.0)
        right, reverse = (float(kl_divergence(*pair).sum()) for pair in ((q, p), (p, q)))
        assert right != pytest.approx(reverse, rel=0.1)
        assert float(net.layer.kl().detach()) == pytest.approx(right, rel=1e-5)

    def test_prior_around_trained_weights(self) -> None:
        torch.manual_seed(0)
        trained = nn.Linear(5, 3)
        layer = Bayesian(trained, prior=priors.Gaussian.around(trained, 0.2), deviation=0.2)
        assert float(layer.kl().detach()) == pytest.approx(0, abs=1e-4)
        with torch.no_grad():
            trained.bias += 0.1
        assert float(layer.kl().detach()) == pytest.approx(3 * 0.5 * (0.1 / 0.2) ** 2, rel=1e-3)

    def test_prior_around_a_bayesian_layer(self) -> None:
        torch.manual_seed(0)
        before = dubio.BayesLinear(5, 3)
        prior = priors.Gaussian.around(before, 0.2)
        layer = Bayesian(copy.deepcopy(before.layer), prior=prior, deviation=0.2)
        assert float(layer.kl().detach()) == pytest.approx(0, abs=1e-4)

    @every_prior
    def test_mean_of_the_prior(self, prior: Case) -> None:
        torch.manual_seed(0)
        shifted = dataclasses.replace(prior(0.3), mean=0.5)
        layer = dubio.BayesLinear(5, 3, prior=shifted)
        with torch.no_grad():
            moved = Bayesian(copy.deepcopy(layer.layer), prior=prior(0.3))
            for weight in moved.layer.parameters():
                weight.sub_(0.5)
        divergences = []
        for each in (layer, moved):
            torch.manual_seed(1)
            divergences.append(each.kl())
        torch.testing.assert_close(*divergences)
        assert "mean=0.5" in repr(shifted)

    def test_mixture_is_estimated_at_the_weights_of_the_pass(self) -> None:
        prior = priors.ScaleMixture(0.5, 1.0, 0.05)
        net, x = build("linear", prior=prior)
        elbo = dubio.ELBO(
            net, dubio.likelihoods.Gaussian(1.0), num_data=6, draws=2, generator=seeded()
        )
        elbo(x, torch.zeros(6, 3))
        noise = dubio.Noise(2, generator=seeded())
        mean = torch.cat([p.detach().flatten() for p in net.layer.layer.parameters()])
        sigma = torch.full_like(mean, 0.3)
        expected = [prior.kl(mean, sigma, noise_of(net.layer, noise[k])) for k in range(2)]
        torch.testing.assert_close(elbo.kl, torch.stack(expected).mean(), rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_estimates_follow_the_generator(self, sampler: Any) -> None:
        prior = priors.ScaleMixture(0.5, 1.0, 0.05)
        net, x = build("linear", prior=prior, sampler=sampler)
        found = []
        for seed in (0, 0, 1):
            elbo = dubio.ELBO(
                net, dubio.likelihoods.Gaussian(1.0), num_data=6, generator=seeded(seed)
            )
            elbo(x, torch.zeros(6, 3))
            found.append(float(elbo.kl))
        assert found[0] == found[1] != found[2]
        assert math.isfinite(float(net.eval().layer.kl().detach()))

    def test_is_not_evaluated_in_prediction(self, monkeypatch: pytest.MonkeyPatch) -> None:
        net, x = build("linear")

        def never(*_: Any) -> None:
            raise AssertionError("a divergence was evaluated")

        monkeypatch.setattr(priors.Gaussian, "kl", never)
        dubio.predict(net, x, draws=3)
        with dubio.Noise():
            net(x)
        net.train()(x)
        net.eval()(x)


class TestGradients:
    @pytest.mark.parametrize("pruned", [False, True])
    @every_prior
    def test_of_means_and_rho_are_finite_differences(self, prior: Case, pruned: bool) -> None:
        net, x = build("linear", prior=prior(0.5))
        net, x = net.double(), x.double()
        if pruned:
            net.layer.kept = torch.rand(len(net.layer.rho), generator=seeded()) < 0.6
        y = torch.randn(6, 3, dtype=torch.float64, generator=seeded())

        def loss(*parameters: Tensor) -> Tensor:
            generator = seeded()
            elbo = dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), 6, draws=2, generator=generator)
            return elbo(x, y)

        assert torch.autograd.gradcheck(loss, tuple(net.parameters()))

    @pytest.mark.parametrize(("name", "sampler"), SAMPLERS)
    def test_reach_every_parameter(self, name: str, sampler: Any) -> None:
        net, x = build(name, sampler=sampler)
        y = torch.zeros_like(net(x)).detach()
        dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), num_data=6)(x, y).backward()
        for n, parameter in net.named_parameters():
            assert parameter.grad is not None, n
            assert parameter.grad.isfinite().all(), n
            assert parameter.grad.abs().sum() > 0, n

    def test_of_a_plain_loop_are_those_of_the_objective(self) -> None:
        """Noise from torch's generator, the divergence apart: the same formula."""
        net, x = build("linear")
        y = torch.zeros(6, 3)
        torch.manual_seed(3)
        eps = torch.randn(len(net.layer.rho))
        torch.manual_seed(3)
        loss = 0.5 * (net.train()(x) - y).square().sum() + net.layer.kl()
        found = torch.autograd.grad(loss, list(net.parameters()))
        mean = torch.cat([p.detach().flatten() for p in net.layer.layer.parameters()])
        mean.requires_grad_()
        rho = net.layer.rho.detach().clone().requires_grad_()
        sigma = F.softplus(rho)
        w = mean + sigma * eps
        out = x @ w[:15].view(3, 5).T + w[15:]
        q = kl_divergence(Normal(mean, sigma), Normal(0.0, 1.0)).sum()
        expected = torch.autograd.grad(0.5 * (out - y).square().sum() + q, [mean, rho])
        torch.testing.assert_close(torch.cat([g.flatten() for g in found[1:]]), expected[0])
        torch.testing.assert_close(found[0], expected[1])

    def test_local_noise_stands_inputs_of_zero(self) -> None:
        net, _ = build("no bias", sampler="local")
        x = torch.zeros(4, 5, requires_grad=True)
        net.train()(x).sum().backward()
        assert x.grad is not None
        for gradient in (x.grad, net.layer.rho.grad):
            assert gradient.isfinite().all()

    def test_frozen_means_stay(self) -> None:
        net, x = build("linear")
        net.layer.layer.requires_grad_(False)
        dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), 6)(x, torch.zeros(6, 3)).backward()
        assert net.layer.layer.weight.grad is None
        assert net.layer.rho.grad is not None


class TestState:
    def test_holds_no_noise(self) -> None:
        net, x = build("lstm")
        expected = {"layer.rho"} | {
            f"layer.layer.{n}" for n, _ in net.layer.layer.named_parameters()
        }
        net.train()(x)
        dubio.predict(net, x, draws=2)
        assert set(net.state_dict()) == expected

    def test_saved_and_copied(self) -> None:
        net, x = build("linear", sampler="flipout")
        file = io.BytesIO()
        torch.save(net, file)
        file.seek(0)
        others = [copy.deepcopy(net), torch.load(file, weights_only=False)]
        for other in others:
            for one, two in zip(net.parameters(), other.parameters(), strict=True):
                assert torch.equal(one, two)
                assert one is not two
            draws = [dubio.predict(n, x, draws=2, generator=seeded()).draws for n in (net, other)]
            assert torch.equal(*draws)

    def test_pruned_weights_are_part_of_it(self) -> None:
        net, x = build("linear")
        net.layer.kept = torch.arange(18) % 2 == 0
        other, _ = build("linear")
        other.load_state_dict(net.state_dict())
        assert torch.equal(other.layer.kept, net.layer.kept)
        assert torch.equal(other.eval()(x), net.eval()(x))
        back, _ = build("linear")
        other.load_state_dict(back.state_dict())
        assert other.layer.kept is None

    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_in_other_precisions(self, sampler: Any) -> None:
        net, x = build("linear", sampler=sampler)
        with torch.autocast("cpu", torch.bfloat16):
            elbo = dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), 6)
            elbo(x, torch.zeros(6, 3)).backward()
            with torch.no_grad():
                one_pass = net.eval()(x)
            assert dubio.predict(net, x, draws=3).draws.dtype == one_pass.dtype == torch.bfloat16
        assert all(p.grad.isfinite().all() for p in net.parameters())
        double = net.double()
        assert dubio.predict(double, x.double(), draws=3).draws.dtype == torch.float64

    def test_half_precision_layers_have_precise_deviations(self) -> None:
        layer = Bayesian(nn.Linear(5, 3).bfloat16())
        assert layer.rho.dtype == torch.float32
        x = torch.randn(4, 5).bfloat16()
        out = layer.train()(x)
        assert out.dtype == torch.bfloat16
        (out.float().sum() + layer.kl()).backward()
        assert layer.layer.weight.grad.dtype == torch.bfloat16
        with torch.no_grad():
            assert dubio.predict(layer, x, draws=2).draws.dtype == torch.bfloat16


class TestSamplersAgree:
    """Means and variances of outputs, and the variance of gradients."""

    @pytest.mark.parametrize("name", ["linear", "conv2d", "transposed"])
    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_mean_and_variance_of_outputs_are_exact(self, name: str, sampler: Any) -> None:
        """4000 draws, every output; z below 6.2 in ~400 tests: false alarms below 1e-6.

        Outputs are Gaussian given x, so the sample variance has the relative error √(2/draws).
        """
        net, x = build(name, sampler=sampler)
        x, draws = x[:3], 4000
        found = dubio.predict(net, x, draws=draws, generator=seeded()).draws.double()
        from dubio.layers.substitution import substitute

        mean = net.layer.layer(x).double()
        squared = {n: d.square() for n, d in net.layer.deviations().items()}
        variance = substitute(net.layer.layer, squared)(x.square()).double()
        z = (found.mean(0) - mean) / (variance / draws).sqrt()
        assert z.abs().max() < 6.2
        z = (found.var(0) / variance - 1) / math.sqrt(2 / draws)
        assert z.abs().max() < 6.8  # a χ² has a longer tail

    def test_flipout_has_one_set_of_weights_for_all_positions_of_a_row(self) -> None:
        net, x = build("linear on sequences", sampler="flipout")
        rows = x[:, :1].expand(-1, 4, -1).clone()
        found = dubio.predict(net, rows, draws=3).draws
        torch.testing.assert_close(found, found[:, :, :1].expand_as(found))
        assert not torch.equal(found[:, 0], found[:, 1])

    def test_rows_average_the_noise_of_gradients(self) -> None:
        """The loss of a batch: gradients vary less than with one draw of weights for all rows.

        Variances of a gradient's norm by 100 batches are good to about 10 %, and the ratios found
        are near .05.
        """
        variances = {}
        for sampler in ("weights", "local", "flipout"):
            torch.manual_seed(0)
            net = nn.Sequential(
                dubio.BayesLinear(8, 16, sampler=sampler, deviation=0.3), nn.Tanh(),
                dubio.BayesLinear(16, 1, sampler=sampler, deviation=0.3),
            )  # fmt: skip
            x, y = torch.randn(64, 8), torch.randn(64, 1)
            elbo = dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), 64, generator=seeded())
            gradients = []
            for _ in range(100):
                net.zero_grad()
                elbo(x, y).backward()
                gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
            variances[sampler] = float(torch.stack(gradients).var(0).sum())
        assert variances["local"] < 0.5 * variances["weights"]
        assert variances["flipout"] < 0.5 * variances["weights"]


@pytest.mark.parametrize(
    "kind",
    [
        "Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
        "ConvTranspose3d", "Embedding", "LSTM", "GRU", "RNN", "MultiheadAttention",
    ],
)  # fmt: skip
def test_layers_by_name(kind: str) -> None:
    arguments = (4, 2, 3) if "Conv" in kind else (4, 2)
    make = getattr(dubio, f"Bayes{kind}")
    layer = make(*arguments, deviation=0.1)
    assert type(layer.layer) is getattr(nn, kind)
    for sigma in layer.deviations().values():
        torch.testing.assert_close(sigma, torch.full_like(sigma, 0.1))
    if kind != "Embedding":
        assert len(make(*arguments, bias=False).rho) < len(layer.rho)


class TestWrongArguments:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"deviation": -1.0}, ValueError, "deviation: expected a positive number, got -1.0"),
            (
                {"sampler": "locally"},
                ValueError,
                "sampler: expected one of weights, local, flipout",
            ),
            ({"prior": 1.0}, TypeError, r"prior: expected one from dubio.priors, got 1.0"),
            (
                {"prior": priors.Gaussian.around(nn.Linear(4, 3), 1.0)},
                ValueError,
                r"prior: expected means for weights of shapes .*\(3, 5\).* got .*\(3, 4\)",
            ),
        ],
    )
    def test_options(self, options: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            Bayesian(nn.Linear(5, 3), **options)

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: nn.ReLU(), ValueError, "expected a module with weights, got ReLU"),
            (lambda: nn.LazyLinear(3), ValueError, "an uninitialised LazyLinear"),
            (lambda: nn.Embedding(3, 2, max_norm=1.0), ValueError, "without max_norm"),
            (lambda: dubio.BayesLinear(3, 2), TypeError, "stochastic already"),
            (lambda: 3, TypeError, "expected an nn.Module, got int"),
        ],
    )
    def test_layers(self, make: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            Bayesian(make())

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    def test_scripted(self) -> None:
        with pytest.raises(TypeError, match="compiled by TorchScript; take the module"):
            Bayesian(torch.jit.script(nn.Linear(3, 2)))

    def test_sampler_for_linear_layers_only(self) -> None:
        with pytest.raises(ValueError, match="sampler: expected 'weights' for LSTM, got 'local'"):
            dubio.BayesLSTM(3, 2, sampler="local")

    def test_padding_that_is_not_zero(self) -> None:
        layer = nn.Embedding.from_pretrained(torch.ones(3, 2), padding_idx=1)
        with pytest.raises(ValueError, match="expected zeros in row 1"):
            Bayesian(layer)


class Standardised(nn.Conv2d):
    """Its output is not linear in its weights."""

    def forward(self, x: Tensor) -> Tensor:
        return self._conv_forward(x, self.weight / self.weight.std(), self.bias)


class TestRowNoiseIsForPlainLayers:
    MAKE: ClassVar[dict[str, Callable[[], nn.Module]]] = {
        "subclass": lambda: Standardised(2, 3, 1),
        "parametrization": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
        "hook": lambda: _hooked(nn.Linear(4, 3)),
    }

    @pytest.mark.parametrize("sampler", ["local", "flipout"])
    @pytest.mark.parametrize("name", MAKE)
    def test_others_are_refused(self, name: str, sampler: Any) -> None:
        with pytest.raises(ValueError, match=r"expected 'weights' for .*parametrizations"):
            Bayesian(self.MAKE[name](), sampler=sampler)
        assert Bayesian(self.MAKE[name]()).sampler == "weights"

    def test_a_subclass_with_the_same_forward_will_do(self) -> None:
        class Named(nn.Linear):
            pass

        assert Bayesian(Named(3, 2), sampler="local").sampler == "local"


def _hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda module, inputs, output: output.tanh())
    return layer


class TestOnePass:
    """A layer that is called several times, with and without gradients."""

    @pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_a_call_without_gradients_takes_none_from_the_next(
        self, sampler: Any, context: Any
    ) -> None:
        class Twice(nn.Module):
            def __init__(self, quiet: Any) -> None:
                super().__init__()
                torch.manual_seed(0)
                self.layer = dubio.BayesLinear(3, 3, sampler=sampler, deviation=0.3)
                self.quiet = quiet

            def forward(self, x: Tensor) -> Tensor:
                if self.quiet is None:
                    return self.layer(x + self.layer(x).detach())
                with self.quiet():
                    before = self.layer(x)
                return self.layer(x + before.clone())

        x, gradients = torch.randn(4, 3, generator=seeded()), []
        for quiet in (None, context):
            net = Twice(quiet)
            elbo = dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), 4, generator=seeded())
            elbo(x, torch.zeros(4, 3)).backward()
            gradients.append([p.grad for p in net.parameters()])
        torch.testing.assert_close(*gradients)

    @pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
    @pytest.mark.parametrize("before", [False, True])
    @pytest.mark.parametrize("reentrant", [False, True])
    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_checkpoints_are_refused(self, sampler: Any, reentrant: bool, before: bool) -> None:
        from torch.utils.checkpoint import checkpoint

        layer = dubio.BayesLinear(3, 3, sampler=sampler)

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = layer

            def forward(self, x: Tensor) -> Tensor:
                x = layer(x) if before else x
                return checkpoint(layer, x, use_reentrant=reentrant)

        x = torch.randn(4, 3, requires_grad=True)
        elbo = dubio.ELBO(Net(), dubio.likelihoods.Gaussian(1.0), 4)
        with pytest.raises(NotImplementedError, match="noise inside of torch"):
            elbo(x, torch.zeros(4, 3))
        assert dubio.predict(Net(), x.detach(), draws=2).std.isfinite().all()

    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_a_layer_is_one_site(self, sampler: Any) -> None:
        net = nn.Sequential(
            dubio.BayesLinear(3, 3, sampler=sampler), nn.ReLU(),
            dubio.BayesLinear(3, 3, sampler=sampler),
        )  # fmt: skip
        x = torch.rand(5, 3)
        assert [(s.name, s.kind) for s in dubio.sites(net, x)] == [
            ("0", "BayesLinear"),
            ("2", "BayesLinear"),
        ]
        assert (dubio.predict(net, x, draws=6, where="2").std > 0).all()
        with torch.no_grad():
            net[2].rho.fill_(-100.0)
        for where in ("2", net[2], lambda site: site.name == "2"):
            assert dubio.predict(net, x, draws=6, where=where).std.max() < 1e-6

    @pytest.mark.parametrize("sampler", ["weights", "flipout"])
    def test_compiled(self, sampler: Any) -> None:
        net, x = build("linear", sampler=sampler)
        compiled = torch.compile(net, backend="eager")
        losses = [
            dubio.ELBO(n, dubio.likelihoods.Gaussian(1.0), 6, generator=seeded())(
                x, torch.zeros(6, 3)
            )
            for n in (net, compiled)
        ]
        assert losses[0] == losses[1]
        noise = dubio.Noise()
        with noise:
            one = net(x)
        with noise:
            assert torch.equal(compiled(x), one)


class TestTiedWeights:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.out.weight = self.words.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.words(x))

    def test_are_refused(self) -> None:
        """They would have two draws, and count twice."""
        message = "one Parameter is the layer.weight of two of them.*make one Bayesian"
        with pytest.raises(ValueError, match=message):
            dubio.convert(self.Tied(), dubio.rules.bayes())
        net = self.Tied()
        net.words, net.out = Bayesian(net.words), Bayesian(net.out)
        for use in (dubio.kl, dubio.freeze, lambda net: dubio.prune(net, 0.5)):
            with pytest.raises(ValueError, match=message):
                use(net)

    def test_of_one_bayesian_layer_are_its_means_elsewhere(self) -> None:
        net = dubio.convert(self.Tied(), dubio.rules.bayes(where="words"))
        assert net.out.weight is net.words.layer.weight
        assert dubio.kl(net) == net.words.kl()

    def test_advice_for_a_layer_in_two(self) -> None:
        layer = nn.Linear(3, 3)
        with pytest.raises(ValueError, match="use one Bayesian in both places"):
            dubio.kl(nn.Sequential(Bayesian(layer), Bayesian(layer)))


class TestHalfPrecision:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
    def test_divergence_and_spread_are_those_of_single(self, sampler: Any, dtype: Any) -> None:
        """400 draws of 18 outputs: spreads are good to 3.5 %, their mean far better."""
        center = priors.Gaussian.around(nn.Linear(5, 3), 0.1)
        net, x = build("linear", sampler=sampler, deviation=1e-3, prior=center)
        single = dubio.predict(net, x, draws=400, generator=seeded()).std
        expected = float(net.layer.kl().detach())
        for half in (copy.deepcopy(net).to(dtype), self._born(net, dtype)):
            assert half.layer.rho.dtype == half.layer.center.dtype == torch.float32
            assert float(half.layer.kl().detach()) == pytest.approx(expected, rel=0.02)
            out = half.train()(x.to(dtype))
            assert out.dtype == dtype
            (out.float().sum() + half.layer.kl()).backward()
            with torch.no_grad():
                means = half.eval()(x.to(dtype)).float()
                draws = dubio.predict(half, x.to(dtype), draws=400, generator=seeded()).draws
            if dtype == torch.float16:  # bfloat16 rounds to 1e-3 and more
                spread = (draws.float() - means).square().mean(0).sqrt()
                torch.testing.assert_close(spread.mean(), single.mean(), rtol=0.1, atol=0)

    @staticmethod
    def _born(net: Called, dtype: torch.dtype) -> Called:
        """Around a layer that had this precision before."""
        old = net.layer
        layer = copy.deepcopy(old.layer).to(dtype)
        return Called(Bayesian(layer, prior=old.prior, sampler=old.sampler, deviation=1e-3))

    def test_float_again(self) -> None:
        net, _ = build("linear")
        rho = net.layer.rho.detach().clone()
        assert torch.equal(net.half().float().layer.rho, rho)


class TestChangedLayers:
    def test_other_shapes_are_noticed(self) -> None:
        layer = dubio.BayesLinear(3, 3)
        layer.layer.bias = None
        for use in (layer.kl, layer.means, lambda: layer(torch.ones(1, 3))):
            with pytest.raises(RuntimeError, match=r"expected the 12 weights .* got 9"):
                use()

    def test_a_partial_state_leaves_what_it_does_not_speak_of(self) -> None:
        words = dubio.BayesEmbedding(5, 3, padding_idx=0)
        words.kept[4] = False
        before = words.kept.clone()
        words.load_state_dict({}, strict=False)
        assert torch.equal(words.kept, before)
        words.load_state_dict({"rho": words.rho.detach()}, strict=False)
        assert torch.equal(words.kept, torch.arange(15) > 2)

    def test_padding_without_memory(self) -> None:
        with torch.device("meta"):
            words = dubio.BayesEmbedding(5, 3, padding_idx=0)
        assert words.kept is not None
        assert words.kept.is_meta


def test_an_error_of_the_network_is_told() -> None:
    """Also if a view of a sampled tensor is held by then."""

    def fail(x: Tensor) -> Tensor:
        part = x[:, 0].view(-1)
        raise KeyError(f"mine, after {len(part)} rows")

    layer = dubio.BayesLinear(3, 4)
    with pytest.raises(KeyError, match="mine, after 2 rows"):
        dubio.predict(lambda x: fail(layer(x)), torch.randn(2, 3))


@pytest.mark.parametrize("prior", [priors.Gaussian(0.7), priors.Laplace(0.4)])
def test_layers_that_draw_together_have_the_divergence_of_each(prior: priors.Prior) -> None:
    """Small layers of one prior are sampled at once: KL and gradients are those of all of them."""
    torch.manual_seed(0)
    net = nn.Sequential(
        dubio.BayesLinear(3, 4, prior=prior, deviation=0.1), nn.Tanh(),
        dubio.BayesLinear(4, 4, prior=prior, deviation=0.2, bias=False), nn.Tanh(),
        dubio.BayesLinear(4, 1, prior=priors.Gaussian(2.0), deviation=0.3),
    ).double()  # fmt: skip
    x, y = torch.randn(5, 3).double(), torch.randn(5, 1).double()
    flat = dubio.likelihoods.Gaussian(1e-30)  # so that the data say nothing
    elbo = dubio.ELBO(net, flat, 7, kl_weight=3.0)
    (2 * elbo(x, y)).backward()
    expected = dubio.kl(net)
    assert float(elbo.kl) == pytest.approx(float(expected.detach()), rel=1e-9)
    slopes = torch.autograd.grad(expected, list(net.parameters()))
    for parameter, slope in zip(net.parameters(), slopes, strict=True):
        torch.testing.assert_close(parameter.grad, slope * 6 / 7)


def test_layers_that_draw_together_have_independent_weights() -> None:
    net = nn.Sequential(*(dubio.BayesLinear(2, 2, bias=False, deviation=1.0) for _ in range(2)))
    for layer in net:
        nn.init.zeros_(layer.layer.weight)
    seen: list[Tensor] = []

    class Noting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x.detach())
            return x

    eye = torch.eye(2)
    both = nn.Sequential(net[0], Noting(), net[1], Noting())
    elbo = dubio.ELBO(both, dubio.likelihoods.Gaussian(1.0), 1)
    for _ in range(2000):
        elbo(eye, eye)
    first = torch.stack(seen[::2])  # W₁ᵀ
    second = torch.linalg.solve(first, torch.stack(seen[1::2]))  # W₂ᵀ
    draws = torch.cat([first.flatten(1), second.flatten(1)], 1)  # (2000, 8)
    correlations = torch.corrcoef(draws.T) - torch.eye(8)
    # false alarm: 28 correlations of standard error 1/√2000, each beyond 5.6 of them: 6e-7
    assert correlations.abs().max() < 5.6 / 2000**0.5 + 1e-2


@pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
def test_second_derivatives_have_the_divergence(sampler: Any) -> None:
    """For a prior N(0, 1) the second derivative of KL by a mean is one."""
    layer = dubio.BayesLinear(1, 1, sampler=sampler, bias=False)
    elbo = dubio.ELBO(nn.Sequential(layer), dubio.likelihoods.Gaussian(1e-9), 1)
    weight = layer.layer.weight
    loss = elbo(torch.zeros(2, 1), torch.zeros(2, 1))
    (slope,) = torch.autograd.grad(loss, weight, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), weight)
    assert float(curvature) == pytest.approx(1.0, abs=1e-5)


def test_the_same_seed_gives_the_same_loss_without_gradients() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*(dubio.BayesLinear(2, 2, deviation=0.3) for _ in range(3)))
    x, y = torch.randn(5, 2), torch.randn(5, 2)

    def loss() -> float:
        seed = torch.Generator().manual_seed(4)
        elbo = dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), 9, generator=seed)
        return elbo(x, y).item()

    expected = loss()
    with torch.no_grad():
        assert loss() == pytest.approx(expected, rel=1e-6)
    net[0].requires_grad_(False)
    assert loss() == pytest.approx(expected, rel=1e-6)
    net.requires_grad_(False)
    assert loss() == pytest.approx(expected, rel=1e-6)
