"""Masks and masked layers against the formulas done naively, scipy, and numerical integration.

Moments of multipliers and of their gradients are tested at the level 1e-6 over the whole file
(Bonferroni).
"""

import copy
import itertools
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
from torch import Tensor, nn

import dubio
from dubio.layers.masked import Masked
from dubio.masks import Bernoulli, Concrete, Gaussian, LearnableBernoulli, LearnableGaussian
from dubio.masks.mask import learned_bernoulli_kl
from dubio.noise.stochastic import kl
from mask_cases import (
    MASKS,
    Case,
    concrete_moment,
    every_learned_mask,
    every_mask,
    multipliers,
)

DROPS = [0.01, 0.1, 0.2, 0.5, 0.8]
SAMPLES = 400_000
UNITS = 40
COMPARISONS = 4 * len(MASKS) * len(DROPS)  # two moments, and gradients of up to two parameters
CRITICAL = -NormalDist().inv_cdf(1e-6 / 2 / COMPARISONS)  # of two sides


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(kind: Case) -> nn.Sequential:
    """A masked network in float64: rates by unit, and one for a layer."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 6), nn.ReLU(inplace=True), Masked(nn.Linear(6, 4), kind(6, drop=0.3)),
        nn.Tanh(), Masked(nn.Linear(4, 3), kind(1, drop=0.3)),
    ).double()  # fmt: skip


def batch(rows: int = 7) -> Tensor:
    return torch.randn(rows, 5, dtype=torch.float64, generator=seeded(1))


class TestMultipliers:
    @pytest.mark.parametrize("drop", DROPS)
    @every_mask
    def test_mean_and_variance(self, kind: Case, drop: float) -> None:
        m = multipliers(kind(1, drop=drop), SAMPLES, seeded()).detach()
        mean, variance = kind.mean(drop), kind.variance(drop)
        centred = (m - mean).square()
        assert abs(m.mean() - mean) < CRITICAL * m.std() / SAMPLES**0.5 + 1e-12
        assert abs(centred.mean() - variance) < CRITICAL * centred.std() / SAMPLES**0.5 + 1e-12

    @pytest.mark.parametrize("drop", DROPS)
    @every_learned_mask
    def test_gradients_are_those_of_the_second_moment(self, kind: Case, drop: float) -> None:
        """E[∂m²/∂θ] = ∂E[m²]/∂θ, by way of the rate: unbiased for losses quadratic in a mask.

        By a t-test on the means of some units, which are alike.
        """
        mask = kind(UNITS, drop=drop).double()
        step = 1e-4 * drop
        low, high = (kind.variance(d) + kind.mean(d) ** 2 for d in (drop - step, drop + step))
        slope = (high - low) / (2 * step)
        parameters = list(mask.parameters())
        expected = torch.autograd.grad(slope * (1 - mask.keep).sum(), parameters)
        m = multipliers(mask, SAMPLES // UNITS, seeded(1))
        found = torch.autograd.grad(m.square().mean(0).sum(), parameters)
        critical = scipy.stats.t.isf(1e-6 / 2 / COMPARISONS, UNITS - 1)
        for one, other in zip(found, expected, strict=True):
            error = float(one.std()) / UNITS**0.5
            assert abs(float(one.mean() - other[0])) < critical * error + 1e-5 * float(
                other[0].abs()
            )

    @pytest.mark.parametrize("kind", [Bernoulli, LearnableBernoulli])
    def test_bernoulli_masks_are_binary(self, kind: Any) -> None:
        mask = kind(1, drop=0.2).double()
        m = mask.multiplier(1, torch.rand(1000, 1, dtype=torch.float64))
        torch.testing.assert_close(m.unique(), torch.tensor([0, 1.25], dtype=torch.float64))

    def test_a_second_moment_of_the_concrete_mask_as_documented(self) -> None:
        assert concrete_moment(0.2, 2) == pytest.approx(1.22, abs=5e-3)

    @pytest.mark.parametrize("units", [1, 4])
    @every_mask
    def test_gradcheck_under_fixed_noise(self, kind: Case, units: int) -> None:
        """Of inputs and weights, and of the mask's parameters where it is smooth in them."""
        layer = Masked(nn.Linear(4, 3), kind(units, drop=0.3)).double()
        x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True, generator=seeded())
        noise = dubio.Noise(generator=seeded())
        chosen = [p for n, p in layer.named_parameters() if kind.smooth or "mask." not in n]

        def outputs(x: Tensor, *_: Tensor) -> Tensor:
            with noise[0]:
                return layer(x)

        assert torch.autograd.gradcheck(outputs, (x, *chosen))


@torch.no_grad()
def naive_columns(layer: nn.Module) -> list[np.ndarray]:
    """The weights that see each input, found by which outputs it reaches."""
    if isinstance(layer, nn.LSTM):
        weights = [layer.weight_ih_l0, layer.weight_ih_l0_reverse]
        return [torch.cat([w[:, k] for w in weights]).numpy() for k in range(layer.input_size)]
    if isinstance(layer, nn.MultiheadAttention):
        return [layer.in_proj_weight[:, k].numpy() for k in range(layer.embed_dim)]
    if isinstance(layer, nn.Linear):
        return [layer.weight[:, k].numpy() for k in range(layer.in_features)]
    transposed = isinstance(layer, nn.ConvTranspose2d)
    inside, outside = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    columns = []
    for k in range(layer.in_channels):
        group, within = divmod(k, inside)
        rows = layer.weight[group * outside : (group + 1) * outside]
        columns.append((layer.weight[k] if transposed else rows[:, within]).flatten().numpy())
    return columns


LAYERS: dict[str, nn.Module] = {
    "linear": nn.Linear(6, 4),
    "conv1d": nn.Conv1d(6, 4, 3),
    "conv2d": nn.Conv2d(6, 4, (3, 2)),
    "conv3d": nn.Conv3d(6, 2, 2),
    "grouped": nn.Conv2d(6, 4, 3, groups=2),
    "depthwise": nn.Conv2d(6, 6, 3, groups=6),
    "transposed": nn.ConvTranspose2d(6, 4, 3),
    "transposed, grouped": nn.ConvTranspose2d(6, 4, 3, groups=2),
    "lstm": nn.LSTM(6, 4, num_layers=2, bidirectional=True),
    "attention": nn.MultiheadAttention(6, 2),
}


class TestDivergence:
    @pytest.mark.parametrize("units", [1, 6])
    @every_mask
    @pytest.mark.parametrize("name", LAYERS)
    def test_formula_done_naively(self, name: str, kind: Case, units: int) -> None:
        layer = copy.deepcopy(LAYERS[name]).double()
        mask = kind(units, drop=0.3).double()
        with torch.no_grad():
            for parameter in mask.parameters():
                parameter += 0.5 * torch.randn(units, dtype=torch.float64, generator=seeded())
        masked = Masked(layer, mask, length_scale=0.7)
        expected = 0.0
        for k, column in enumerate(naive_columns(layer)):
            values = {"keep": mask.keep, **dict(mask.named_parameters())}
            expected += kind.kl(column, 0.7, **{n: v[k % units].item() for n, v in values.items()})
        assert masked.kl().item() == pytest.approx(expected, rel=1e-6)  # a float32 buffer's rate

    @pytest.mark.parametrize("units", [1, 4])
    @every_mask
    def test_gradcheck(self, kind: Case, units: int) -> None:
        masked = Masked(nn.Linear(4, 3, bias=False), kind(units, drop=0.3), length_scale=0.7)
        masked.double()
        assert torch.autograd.gradcheck(lambda *_: masked.kl(), tuple(masked.parameters()))

    @pytest.mark.parametrize("units", [1, 4])
    @every_mask
    def test_a_known_divergence_is_that_of_learned_rates(self, kind: Case, units: int) -> None:
        masked = Masked(nn.Linear(4, 3, bias=False), kind(units, drop=0.3), length_scale=0.7)
        if masked.mask.kl_is_known:
            expected = learned_bernoulli_kl(masked.layer.weight, masked.mask.logit, 0.7)
            torch.testing.assert_close(masked.kl(), expected)

    @pytest.mark.parametrize("logit", [-40.0, -3.0, 0.0, 1.0, 40.0])
    def test_entropy_against_scipy(self, logit: float) -> None:
        no_weights = torch.zeros(1, 1, dtype=torch.float64)
        actual = -learned_bernoulli_kl(no_weights, torch.tensor([logit]).double(), 1.0)
        keep, drop = scipy.special.expit([logit, -logit])
        expected = scipy.stats.entropy([keep, drop])
        assert float(actual) == pytest.approx(float(expected), rel=1e-9, abs=1e-15)

    @pytest.mark.parametrize("rates", [1, 4])
    def test_gradient_of_learned_rates(self, rates: int) -> None:
        weights = torch.rand(3, 4, dtype=torch.float64, generator=seeded()).requires_grad_()
        logit = torch.randn(rates, dtype=torch.float64, generator=seeded()).requires_grad_()

        def divergence(w: Tensor, phi: Tensor) -> Tensor:
            return learned_bernoulli_kl(w, phi, 0.7)

        assert torch.autograd.gradcheck(divergence, (weights, logit))
        assert torch.autograd.gradgradcheck(divergence, (weights, logit))

    @pytest.mark.parametrize("log_alpha", np.linspace(-6, 6, 13))
    def test_variational_dropout_against_integration(self, log_alpha: float) -> None:
        """KL(N(w, αw²) ‖ 1/|w|), with the constant that makes it vanish at α → ∞.

        That is E log|n + α^−½| − E log|n|, n ~ N(0, 1). The approximation is good to 0.01 nats.
        """
        layer = nn.Linear(1, 5)
        drop = float(scipy.special.expit(log_alpha))
        actual = Masked(layer, LearnableGaussian(1, drop=drop)).kl().item() / 5
        shift = math.exp(-log_alpha / 2)

        def integrand(v: float) -> float:  # over v = log|n + shift|
            t = math.exp(v)
            return float(v * t * (norm.pdf(t - shift) + norm.pdf(t + shift)))

        norm = scipy.stats.norm
        points = [-40.0, math.log(shift), math.log(shift + 40)]
        value = sum(scipy.integrate.quad(integrand, a, b)[0] for a, b in itertools.pairwise(points))
        exact = value + (np.euler_gamma + math.log(2)) / 2
        assert actual == pytest.approx(exact, abs=0.01)

    def test_sums_over_layers_each_once(self) -> None:
        net = build(MASKS["concrete"])
        layer = net[2]
        expected = net[2].kl() + net[4].kl()
        net.append(layer)  # a second use is no second layer
        torch.testing.assert_close(kl(net), expected)

    def test_without_stochastic_modules_it_says_so(self) -> None:
        with pytest.raises(ValueError, match="expected a network with stochastic modules"):
            kl(nn.Linear(2, 2))


class TestNoise:
    @every_mask
    def test_eval_is_the_mean(self, kind: Case) -> None:
        net, x = build(kind).eval(), batch()
        hidden = net[0](x).relu()
        expected = net[4].layer(net[2].layer(hidden).tanh())
        assert torch.equal(net(x), expected)

    @every_mask
    def test_train_is_fresh_for_every_row_and_call(self, kind: Case) -> None:
        mask, ones = kind(20, drop=0.5).train(), torch.ones(4, 3, 20)
        first, second = mask(ones), mask(ones)
        assert not torch.equal(first, second)
        assert len(first[:, 0].unique(dim=0)) == 4
        assert torch.equal(first, first[:, :1].expand(-1, 3, -1))  # positions share

    @pytest.mark.parametrize("training", [False, True])
    @pytest.mark.parametrize("shared", [False, True])
    @every_mask
    def test_a_draw_replays_exactly(self, kind: Case, shared: bool, training: bool) -> None:
        net, x = build(kind).train(training), batch()
        noise = dubio.Noise(2, shared=shared, generator=seeded())
        outputs = []
        for k in (0, 1, 0):
            with noise[k]:
                outputs.append(net(x))
        assert torch.equal(outputs[0], outputs[2])
        assert not torch.equal(outputs[0], outputs[1])

    @pytest.mark.parametrize("shared", [False, True])
    @every_mask
    def test_a_pass_makes_a_mask_of_the_noises_that_it_declares(
        self, kind: Case, shared: bool
    ) -> None:
        """Those that rows have to themselves are as long as the batch, unless rows share all."""
        mask, ones = kind(5, drop=0.5).double(), torch.ones(4, 5, dtype=torch.float64)
        noise = dubio.Noise(shared=shared, generator=seeded())
        with noise:
            found = mask(ones)
        noises = []
        for call, each in enumerate(mask.noises):
            shape = torch.Size([4 if each.per_row and not shared else 1, 5])
            noises.append(getattr(noise.numbers, each.distribution)((0, call), shape, ones)[0])
        torch.testing.assert_close(found, mask.multiplier(1, *noises).expand(4, 5))

    @every_mask
    def test_one_pass_one_noise_however_often_a_mask_is_called(self, kind: Case) -> None:
        mask, ones = kind(20, drop=0.5), torch.ones(4, 20)
        with dubio.Noise(generator=seeded()):
            assert torch.equal(mask(ones), mask(ones))

    @every_mask
    def test_shared_rows_agree(self, kind: Case) -> None:
        mask, ones = kind(20, drop=0.5), torch.ones(4, 20)
        with dubio.Noise(shared=True, generator=seeded()):
            rows = mask(ones)
        assert len(rows.unique(dim=0)) == 1
        assert len(rows.unique()) > 1

    @pytest.mark.parametrize("layer", [nn.LSTM(6, 4), nn.GRU(6, 4, batch_first=True)], ids=str)
    def test_one_mask_per_sequence(self, layer: nn.RNNBase) -> None:
        mask, ones = LearnableBernoulli(6, drop=0.5), torch.ones(3, 3, 6)
        masked = Masked(layer, mask).train()
        seen: list[Tensor] = []
        layer.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
        masked(ones)
        (steps,) = seen
        by_sequence = steps if layer.batch_first else steps.transpose(0, 1)  # (B, T, 6)
        assert torch.equal(by_sequence, by_sequence[:, :1].expand(-1, 3, -1))
        assert len(by_sequence[:, 0].unique(dim=0)) > 1

    @every_mask
    def test_channels_of_a_convolution(self, kind: Case) -> None:
        masked = Masked(nn.Conv2d(6, 4, 3), kind(6, drop=0.5)).train()
        seen: list[Tensor] = []
        masked.layer.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
        masked(torch.ones(4, 6, 5, 5))
        assert torch.equal(seen[0], seen[0][..., :1, :1].expand_as(seen[0]))
        assert len(seen[0][..., 0, 0].unique(dim=0)) > 1

    def test_attention_masks_query_key_and_value_alike(self) -> None:
        layer = nn.MultiheadAttention(6, 2, batch_first=True)
        masked, x = Masked(layer, Bernoulli(6)), torch.ones(4, 3, 6)
        seen: list[tuple[Tensor, ...]] = []
        layer.register_forward_pre_hook(lambda _, args: seen.append(args))
        masked.train()(x, x, x)
        with dubio.Noise(generator=seeded()):
            masked(x, x.clone(), x.clone())
        for query, key, value in seen:
            assert torch.equal(query, key)
            assert torch.equal(query, value)


class TestPredict:
    @pytest.mark.parametrize("shared", [False, True])
    @every_mask
    def test_is_what_the_network_gives_for_any_chunk(self, kind: Case, shared: bool) -> None:
        net, x = build(kind), batch()
        noise = dubio.Noise(9, shared=shared, generator=seeded())
        expected = []
        for k in range(9):
            with noise[k], torch.no_grad():
                expected.append(net(x))
        for chunk in (1, 4, None):
            found = dubio.predict(
                net, x, draws=9, shared=shared, chunk=chunk, generator=seeded()
            ).draws
            torch.testing.assert_close(found, torch.stack(expected))

    @every_mask
    def test_shared_draws_are_functions_on_batches_of_any_size(self, kind: Case) -> None:
        net, x = build(kind), batch(7)
        functions = dubio.predict(net, x, draws=5, shared=True, generator=seeded()).draws
        for rows in (1, 3, 4, 5, 6):  # also those as long as a layer is wide
            part = dubio.predict(net, x[:rows], draws=5, shared=True, generator=seeded()).draws
            torch.testing.assert_close(part, functions[:, :rows])

    @every_mask
    def test_sites(self, kind: Case) -> None:
        found = dubio.sites(build(kind), batch())
        assert [site.name for site in found] == ["2.mask", "4.mask"]
        assert [site.kind for site in found] == [type(kind()).__name__] * 2
        assert [site.rate for site in found] == pytest.approx([0.3, 0.3])

    @pytest.mark.parametrize("shared", [False, True])
    @every_mask
    @pytest.mark.parametrize("name", ["conv2d", "transposed"])
    def test_convolutions(self, name: str, kind: Case, shared: bool) -> None:
        net = nn.Sequential(Masked(copy.deepcopy(LAYERS[name]), kind(6, drop=0.3)), nn.Flatten())
        x = torch.randn(6, 6, 5, 5, generator=seeded())  # as many rows as channels
        options = {"draws": 5, "shared": shared}
        one, all_ = (
            dubio.predict(net, x, chunk=chunk, generator=seeded(), **options).draws  # type: ignore[arg-type]
            for chunk in (1, None)
        )
        torch.testing.assert_close(one, all_)


class TestParameters:
    @every_learned_mask
    def test_training_behind_relu_in_place(self, kind: Case) -> None:
        net = build(kind).train()
        net(batch()).square().sum().backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name

    def test_learned_gaussian_rates_have_a_gradient_and_fixed_ones_none(self) -> None:
        for learn, kind in ((False, Gaussian), (True, LearnableGaussian)):
            mask = kind(3).train()
            weight = torch.ones(3, requires_grad=True)
            (mask(torch.ones(5, 3)) * weight).square().sum().backward()
            assert (mask.logit.grad is not None) == learn

    @every_mask
    def test_deepcopy_and_state_dict(self, kind: Case) -> None:
        net = build(kind)
        twin = copy.deepcopy(net)
        other = build(kind)
        for parameter in net.parameters():
            nn.init.normal_(parameter)
        other.load_state_dict(net.state_dict())
        with dubio.Noise(generator=seeded()) as noise:
            expected = net(batch())
        with noise:
            assert torch.equal(other(batch()), expected)
        with noise:
            assert not torch.equal(twin(batch()), expected)

    @every_mask
    def test_rates(self, kind: Case) -> None:
        mask = kind(3, drop=0.2)
        torch.testing.assert_close(mask.drop, torch.full((3,), 0.2))
        torch.testing.assert_close(mask.keep, torch.full((3,), 0.8))
        assert "units=3, drop=0.2" in repr(mask)

    @every_mask
    def test_one_rate_is_the_default_and_learned_if_it_is_to_be(self, kind: Case) -> None:
        assert kind().units == 1
        assert any(True for _ in kind().parameters()) == kind.learned

    @every_learned_mask
    def test_tied_masks_share_the_rate_not_the_noise(self, kind: Case) -> None:
        mask = kind(1, drop=0.5)
        net = nn.Sequential(
            Masked(nn.Linear(20, 20), mask), Masked(nn.Linear(20, 20), mask.tied())
        ).double()
        for twin in (net, copy.deepcopy(net)):
            assert twin[0].mask is not twin[1].mask
            pairs = zip(twin[0].mask.parameters(), twin[1].mask.parameters(), strict=True)
            assert all(one is other for one, other in pairs)
        ones = torch.ones(4, 20, dtype=torch.float64)
        with dubio.Noise(generator=seeded()):
            assert not torch.equal(net[0].mask(ones), net[1].mask(ones))
        kl(net).backward()
        for parameter in mask.parameters():
            alone = [torch.autograd.grad(layer.kl(), parameter)[0] for layer in net]
            torch.testing.assert_close(parameter.grad, sum(alone))


class TestErrors:
    @every_mask
    @pytest.mark.parametrize("drop", [-0.1, 0.0, 1.0, 1.5, "x"])
    def test_rates_lie_between_zero_and_one(self, kind: Case, drop: Any) -> None:
        with pytest.raises(ValueError, match="drop: expected a rate between 0 and 1"):
            kind(1, drop=drop)

    def test_units(self) -> None:
        with pytest.raises(ValueError, match="units: expected a whole number from 1"):
            Bernoulli(0)
        with pytest.raises(ValueError, match="expected units=1 or units=6 for this Linear"):
            Masked(nn.Linear(6, 2), Bernoulli(3))
        with pytest.raises(ValueError, match="make the mask with units=6 or units=1"):
            Bernoulli(3)(torch.ones(2, 6))

    def test_temperature_and_length_scale(self) -> None:
        with pytest.raises(ValueError, match="temperature: expected a positive number"):
            Concrete(1, temperature=0.0)
        with pytest.raises(ValueError, match="temperature: expected a positive number, got 'x'"):
            Concrete(1, temperature="x")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="length_scale: expected a number >= 0"):
            Masked(nn.Linear(6, 2), Bernoulli(), length_scale=-1.0)

    def test_layers(self) -> None:
        with pytest.raises(TypeError, match="got ReLU; mask the layers inside it"):
            Masked(nn.ReLU(), Bernoulli())
        with pytest.raises(TypeError, match="kdim = vdim = embed_dim"):
            Masked(nn.MultiheadAttention(6, 2, kdim=3), Bernoulli())
        packed = nn.utils.rnn.pack_sequence([torch.ones(3, 6)])
        with pytest.raises(TypeError, match="pad sequences instead of packing them"):
            Masked(nn.LSTM(6, 2), Bernoulli())(packed)

    def test_one_mask_for_two_shapes(self) -> None:
        mask = Bernoulli()
        with dubio.Noise(), pytest.raises(ValueError, match=r"with mask\.tied\(\)"):
            mask(mask(torch.ones(2, 3))[:, :2])
