"""Masks by the kernels against torch, in float64, at every level of instructions."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dubio import ELBO, DropConnect, Masked, Noise
from dubio.likelihoods import Categorical
from dubio.masks import Bernoulli, Concrete, Gaussian, LearnableBernoulli, LearnableGaussian, Mask
from dubio.masks.learnable import BinaryGate, HalvesGate, reflect
from dubio.masks.mask import learned_bernoulli_kl
from dubio.native import library, masked, stream
from dubio.native.columns import column_products, rate_divergence, walk
from dubio.native.masked import BERNOULLI, CONCRETE, GAUSSIAN, Masking, MaskRule
from dubio.native.stream import Stream
from dubio.noise import run

needs_kernels = pytest.mark.skipif(library.LOADED is None, reason="the kernels are not in use")
STREAM = Stream(0x1234567890ABCDEF, 3, 1)
RULES = {
    "scale": MaskRule(BERNOULLI),
    "scale, reflected": MaskRule(BERNOULLI, reflected=True),
    "trapezoid": MaskRule(BERNOULLI, trapezoid=True),
    "trapezoid, reflected": MaskRule(BERNOULLI, reflected=True, trapezoid=True),
    "concrete": MaskRule(CONCRETE, 0.1),
    "concrete, warm": MaskRule(CONCRETE, 0.67),
    "gaussian": MaskRule(GAUSSIAN),
    "gaussian, reflected": MaskRule(GAUSSIAN, reflected=True),
}
SHAPES = [(1, 1), (1, 7), (5, 1), (3, 13), (33, 63), (7, 1024), (129, 77), (9, 2049)]


@pytest.fixture(params=library.LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """All levels of instructions that this processor has."""
    if library.LOADED is None:
        pytest.skip("the kernels are not in use")
    used, wanted = library.LOADED.dubio_level(), library.LEVELS.index(request.param)
    if library.LOADED.dubio_use_level(wanted) != wanted:
        library.LOADED.dubio_use_level(used)
        pytest.skip("this processor has no such instructions")
    yield request.param
    library.LOADED.dubio_use_level(used)


def logits_of(units: int) -> Tensor:
    """From all but never to always kept."""
    spread = torch.linspace(-3.0, 3.0, units) if units > 2 else torch.full((units,), 0.8)
    if units > 2:
        spread[units // 2] = 40.0  # keep = 1 exactly
    return spread


def factor_and_slope(
    rule: MaskRule, logit: Tensor, shape: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The mask m and dm/dφ in float64, by the formulas."""
    size = torch.Size(shape)
    u, epsilon = (
        make(size, torch.empty(0))[0].double() for make in (STREAM.uniform, STREAM.normal)
    )
    phi = logit.double()
    keep = torch.sigmoid(logit).double()
    if rule.kind == GAUSSIAN:
        change = (-phi / 2).exp() * (-epsilon if rule.reflected else epsilon)
        return 1 + change, -change / 2
    if rule.kind == CONCRETE:
        keep = torch.sigmoid(phi)
        tiny = 2.0**-23
        soft = torch.sigmoid((phi + u.clamp(tiny, 1 - tiny).logit()) / rule.temperature)
        slope = soft * (1 - soft) / rule.temperature / keep - soft * (1 - keep) / keep
        return soft / keep, slope
    u = 1 - 2.0**-24 - u if rule.reflected else u
    m = (u < keep) / keep
    return m, (1 - m) / 2 if rule.trapezoid else -(1 - keep) * m


def masking(*rules: MaskRule) -> Masking:
    def by_torch(x: Tensor, logit: Tensor) -> Tensor:
        raise AssertionError("torch has no part in this")

    nothing = torch.empty(0)
    return Masking(STREAM, nothing.shape, rules, nothing, nothing, by_torch)


def multiply(
    x: Tensor, shape: torch.Size, logit: Tensor, rates: Tensor, masking: Masking
) -> Tensor:
    """X times a mask of a shape, with these logits and rates."""
    return masked.multiply(x, replace(masking, shape=shape, logit=logit, rates=rates))


def rates_of(rule: MaskRule, logit: Tensor) -> Tensor:
    return torch.sigmoid(logit.detach()) if rule.kind == BERNOULLI else logit.detach()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("single", [False, True], ids=["by unit", "one rate"])
@pytest.mark.parametrize("name", RULES)
def test_both_ways_are_the_formulas_in_float64(
    name: str, single: bool, shape: tuple[int, int], level: str
) -> None:
    torch.manual_seed(0)
    rule, logit = RULES[name], logits_of(1 if single else shape[1])
    x, g = torch.randn(shape, requires_grad=True), torch.randn(shape)
    logit.requires_grad_()
    y = multiply(x, x.shape, logit, rates_of(rule, logit), masking(rule))
    y.backward(g)
    m, slope = factor_and_slope(rule, logit.detach(), shape)
    exact = (g.double() * x.detach().double() * slope).sum_to_size(
        (1, 1) if single else (1, shape[1])
    )
    scale = (g.double() * x.detach().double() * slope).abs().sum()
    torch.testing.assert_close(y.detach().double(), x.detach() * m, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(x.grad.double(), g * m, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(
        logit.grad.double(), exact.view(-1), rtol=1e-4, atol=1e-5 + 1e-6 * float(scale)
    )


@pytest.mark.parametrize("name", RULES)
def test_a_mask_that_is_laid_over_more_entries_is_the_same(name: str, level: str) -> None:
    torch.manual_seed(0)
    rule = RULES[name]
    logits = [logits_of(41).requires_grad_() for _ in range(2)]
    x, g = torch.randn(37, 3, 41), torch.randn(37, 3, 41)
    xs = [x.clone().requires_grad_() for _ in range(2)]
    laid = multiply(
        xs[0], torch.Size((37, 1, 41)), logits[0], rates_of(rule, logits[0]), masking(rule)
    )
    laid.backward(g)
    for step in range(3):
        rates = rates_of(rule, logits[1])
        alone = multiply(xs[1][:, step], torch.Size((37, 41)), logits[1], rates, masking(rule))
        torch.testing.assert_close(laid[:, step], alone)
        alone.backward(g[:, step])
    torch.testing.assert_close(xs[0].grad, xs[1].grad)
    torch.testing.assert_close(logits[0].grad, logits[1].grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", RULES)
def test_halves_have_the_same_noise_and_rules_of_their_own(name: str, level: str) -> None:
    torch.manual_seed(0)
    rule, other = RULES[name], RULES[name]
    if rule.kind == BERNOULLI:
        other = MaskRule(BERNOULLI, reflected=not rule.reflected, trapezoid=rule.trapezoid)
    x, g = torch.randn(2 * 21, 35, requires_grad=True), torch.randn(2 * 21, 35)
    logit = logits_of(35).requires_grad_()
    y = multiply(x, x.shape, logit, rates_of(rule, logit), masking(rule, other))
    found = torch.autograd.grad(y, [x, logit], g)
    parts = [
        torch.autograd.grad(
            multiply(half, half.shape, logit, rates_of(rule, logit), masking(each)),
            [half, logit],
            of_half,
        )
        for each, half, of_half in zip((rule, other), x.chunk(2), g.chunk(2), strict=True)
    ]
    assert torch.equal(found[0], torch.cat([part[0] for part in parts]))
    torch.testing.assert_close(found[1], parts[0][1] + parts[1][1])


def test_zeros_and_ones_are_those_of_the_uniform_numbers(level: str) -> None:
    """Bit for bit, at rates whose last bits differ, and where the high halves of bits are equal."""
    torch.manual_seed(0)
    shape = torch.Size((64, 4099))
    u = STREAM.uniform(shape, torch.empty(0))[0]
    keep = torch.rand(4099).clamp(min=1e-6)
    keep[:64] = u[torch.arange(64), torch.arange(64)].clamp(min=2.0**-24)  # ties
    keep[64:128] = torch.nextafter(u[torch.arange(64), torch.arange(64, 128)], torch.tensor(2.0))
    keep[128] = 1.0
    assert bool((keep > 0).all())
    for reflected in (False, True):
        made = multiply(
            torch.ones(shape), shape, keep, keep, masking(MaskRule(BERNOULLI, reflected=reflected))
        )
        z = (reflect(u) if reflected else u) < keep
        assert torch.equal(made != 0, z)
        assert torch.equal(made, z / keep)
    assert bool((made[:, 128] == 1).all())


@needs_kernels
@pytest.mark.parametrize("name", RULES)
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    torch.manual_seed(0)
    rule, shape = RULES[name], (401, 1009)  # more than 300,000 entries
    x, g = torch.randn(shape, requires_grad=True), torch.randn(shape)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for units in (1009, 1):
                logit = logits_of(units).requires_grad_()
                y = multiply(x, x.shape, logit, rates_of(rule, logit), masking(rule))
                found.append((y.detach(), *torch.autograd.grad(y, [x, logit], g)))
    finally:
        torch.set_num_threads(before)
    for first, *others in (found[0::2], found[1::2]):
        for other in others:
            assert all(map(torch.equal, first, other))


@needs_kernels
@pytest.mark.parametrize("name", RULES)
def test_all_levels_give_the_same(name: str) -> None:
    """Bit for bit for Bernoulli masks, within rounding for the others."""
    torch.manual_seed(0)
    rule, shape = RULES[name], torch.Size((67, 201))
    assert library.LOADED is not None
    used, found = library.LOADED.dubio_level(), []
    try:
        for number in range(library.LOADED.dubio_best_level() + 1):
            library.LOADED.dubio_use_level(number)
            logit = logits_of(201)
            found.append(
                multiply(torch.ones(shape), shape, logit, rates_of(rule, logit), masking(rule))
            )
    finally:
        library.LOADED.dubio_use_level(used)
    for other in found[1:]:
        if rule.kind == BERNOULLI:
            assert torch.equal(found[0], other)
        else:
            torch.testing.assert_close(found[0], other, rtol=2e-5, atol=2e-6)


MASKS: dict[str, Any] = {
    "bernoulli": lambda units: Bernoulli(units, drop=0.3),
    "learnable": lambda units: LearnableBernoulli(units, drop=0.3),
    "concrete": lambda units: Concrete(units, drop=0.3),
    "gaussian": lambda units: Gaussian(units, drop=0.3),
    "variational": lambda units: LearnableGaussian(units, drop=0.3),
}
LAYERS: dict[str, Any] = {
    "linear": (lambda: nn.Linear(11, 5), 11, lambda: torch.randn(9, 11)),
    "time steps": (lambda: nn.Linear(11, 5), 11, lambda: torch.randn(9, 3, 11)),
    "channels": (lambda: nn.Conv2d(6, 4, 3), 6, lambda: torch.randn(9, 6, 5, 5)),
    "lstm": (lambda: nn.LSTM(6, 4), 6, lambda: torch.randn(7, 9, 6)),
}


def pass_of(
    network: nn.Module, x: Tensor, shared: bool, monkeypatch: Any, kernels: bool
) -> list[Tensor]:
    """Output and gradients under a noise, by the kernels or by torch."""
    with monkeypatch.context() as patch:
        if not kernels:
            for module in (stream, masked):
                patch.setattr(module, "LOADED", None)
        x = x.clone().requires_grad_()
        with Noise(1, generator=5, shared=shared)[0]:
            y = network(x)
        y = y[0] if isinstance(y, tuple) else y
        wanted = [x, *(p for p in network.parameters() if p.requires_grad)]
        return [y, *torch.autograd.grad(y.square().sum(), wanted, allow_unused=True)]


@needs_kernels
@pytest.mark.parametrize("shared", [False, True], ids=["per row", "shared"])
@pytest.mark.parametrize("units", ["by unit", "one rate"])
@pytest.mark.parametrize("place", LAYERS)
@pytest.mark.parametrize("kind", MASKS)
def test_layers_have_the_same_values_and_gradients_by_kernels_and_by_torch(
    kind: str, place: str, units: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer, features, inputs = LAYERS[place]
    network = Masked(layer(), MASKS[kind](features if units == "by unit" else 1))
    x = inputs()
    native = pass_of(network, x, shared, monkeypatch, kernels=True)
    plain = pass_of(network, x, shared, monkeypatch, kernels=False)
    for one, other in zip(native, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-4)


@needs_kernels
@pytest.mark.parametrize("kind", MASKS)
def test_weights_have_the_same_masks_by_kernels_and_by_torch(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network, x = DropConnect(nn.Linear(11, 5), MASKS[kind](55)), torch.randn(9, 11)
    native = pass_of(network, x, False, monkeypatch, kernels=True)
    plain = pass_of(network, x, False, monkeypatch, kernels=False)
    for one, other in zip(native, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-4)


@needs_kernels
@pytest.mark.parametrize("estimator", ["trapezoid", "trapezoid_once", "arm", "disarm", "corrected"])
@pytest.mark.parametrize("rows", [64, 2048], ids=["one doubled pass", "two passes"])
def test_estimators_give_the_same_by_kernels_and_by_torch(
    estimator: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        Masked(nn.Linear(13, 9), LearnableBernoulli(13, drop=0.2)), nn.ReLU(),
        Masked(nn.Linear(9, 4), LearnableBernoulli(1, drop=0.5)),
    )  # fmt: skip
    x, y = torch.randn(rows, 13), torch.randint(4, (rows,))
    found = []
    for kernels in (True, False):
        with monkeypatch.context() as patch:
            if not kernels:
                for module in (stream, masked):
                    patch.setattr(module, "LOADED", None)
            torch.manual_seed(1)
            elbo = ELBO(network, Categorical(), 1000, estimator=estimator)
            loss = elbo(x, y)
            found.append([loss, *torch.autograd.grad(loss, list(network.parameters()))])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@needs_kernels
@pytest.mark.parametrize("kind", MASKS)
def test_nothing_of_the_size_of_a_mask_is_stored(kind: str) -> None:
    torch.manual_seed(0)
    mask: Mask = MASKS[kind](300).train()
    x = torch.randn(200, 300, requires_grad=True)
    stored: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        stored.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        mask(x)
    large = [tensor for tensor in stored if tensor.numel() >= 300 * 2]
    assert all(tensor.data_ptr() == x.data_ptr() for tensor in large)  # only what was there before
    assert kind not in ("bernoulli", "gaussian") or not large


@needs_kernels
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("place", ["linear", "time steps"])
def test_gradients_can_be_differentiated(
    kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer, features, inputs = LAYERS[place]
    network, x = Masked(layer(), MASKS[kind](features)), inputs().requires_grad_()
    wanted = [x, *(p for p in network.parameters() if p.requires_grad)]
    found = []
    for kernels in (True, False):
        with monkeypatch.context() as patch:
            if not kernels:
                for module in (stream, masked):
                    patch.setattr(module, "LOADED", None)
            with Noise(1, generator=5)[0]:
                y = network(x).square().sum()
            first = torch.autograd.grad(y, wanted, create_graph=True)
            found.append(torch.autograd.grad(sum(g.square().sum() for g in first), wanted))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@needs_kernels
@pytest.mark.parametrize("kind", MASKS)
def test_many_gradients_at_once(kind: str) -> None:
    torch.manual_seed(0)
    mask: Mask = MASKS[kind](6).train()
    x = torch.randn(4, 6, requires_grad=True)
    wanted = [x, *(p for p in mask.parameters() if p.requires_grad)]
    y = mask(x).sum(1)
    many = torch.autograd.grad(y, wanted, torch.eye(4), is_grads_batched=True, retain_graph=True)
    for row in range(4):
        alone = torch.autograd.grad(y[row], wanted, retain_graph=True)
        for one, other in zip(many, alone, strict=True):
            torch.testing.assert_close(one[row], other, rtol=1e-4, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("kind", MASKS)
def test_outside_of_a_noise_masks_are_fresh_and_follow_the_seed_of_torch(kind: str) -> None:
    mask, x = MASKS[kind](50).train(), torch.ones(30, 50)
    torch.manual_seed(7)
    one, two = mask(x), mask(x)
    torch.manual_seed(7)
    assert torch.equal(one, mask(x))
    assert torch.equal(two, mask(x))
    assert not torch.equal(one, two)


def test_the_gates_of_halves_are_those_of_each_half() -> None:
    mask, keep = LearnableBernoulli(4, drop=0.3), torch.full((4,), 0.7)
    u = torch.rand(3, 4)
    one, other = BinaryGate(), BinaryGate(reflected=True)
    both = HalvesGate(one, other)(mask, keep, torch.cat([u, u]), 1)
    assert torch.equal(both.z, torch.cat([gate(mask, keep, u, 1).z for gate in (one, other)]))


def test_reflected_numbers_are_uniform_numbers_and_reflect_back() -> None:
    u = STREAM.uniform(torch.Size((1000,)), torch.empty(0))[0]
    assert torch.equal(reflect(reflect(u)), u)
    assert 0 <= float(reflect(u).min()) <= float(reflect(u).max()) < 1
    assert math.isclose(float((u + reflect(u)).max()), 1 - 2.0**-24, rel_tol=1e-9)


@needs_kernels
def test_the_scale_of_the_first_mask_has_the_gradient_of_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where inputs need no gradient that of the logits goes by the weights, once and twice."""
    torch.manual_seed(0)
    network = Masked(nn.Linear(11, 5), LearnableBernoulli(11, drop=0.3))
    x = torch.randn(9, 11)
    found = []
    for gate in (BinaryGate(), lambda *given: BinaryGate()(*given)):  # the second by torch
        running = run.Pass(Noise(1, generator=5).numbers, intercept=False, roots=None, gate=gate)
        wanted = list(network.parameters())
        loss = run.run_pass(lambda: network(x), running).pow(3).sum()
        first = torch.autograd.grad(loss, wanted, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), wanted)
        found.append([*first, *second])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@needs_kernels
@pytest.mark.parametrize("shape", [(5, 3), (3000, 7), (70, 257), (100, 1025), (1, 20000)], ids=str)
def test_products_are_summed_over_rows(shape: tuple[int, int], level: str) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(shape), torch.randn(shape)
    with torch.no_grad():
        found = column_products(a, b)
    torch.testing.assert_close(
        found.double(), (a.double() * b.double()).sum(0), rtol=1e-5, atol=1e-5
    )


@needs_kernels
@pytest.mark.parametrize("factors", [1, 257])
def test_columns_are_summed_and_added_in_one_pass(factors: int, level: str) -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(3, 70, 257).unbind()
    factor, sums = torch.randn(factors), torch.empty(257)
    expected_sums, expected = (a * (b - c)).sum(0), c + 0.5 * factor * a
    walk(a, b, c, sums, factor, 0.5, c)
    torch.testing.assert_close((sums, c), (expected_sums, expected), rtol=1e-4, atol=1e-4)
    expected = b + 0.5 * factor * a
    walk(a, None, None, None, factor, 0.5, b)
    torch.testing.assert_close(b, expected)


@needs_kernels
@pytest.mark.parametrize("units", [1, 19])
def test_the_divergence_of_learned_rates(units: int, level: str) -> None:
    torch.manual_seed(0)
    weights = torch.randn(23, 19).requires_grad_()
    logit = (20 * torch.randn(units)).requires_grad_()
    expected = learned_bernoulli_kl(weights.double(), logit.double(), 0.7)
    by_weights, by_logit = torch.autograd.grad(expected, [weights, logit])
    value, scale, slope = rate_divergence(weights.detach(), logit.detach(), 0.7**2)
    assert value == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(weights.detach() * scale, by_weights, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(slope, by_logit, rtol=1e-4, atol=1e-4)


@needs_kernels
def test_products_are_summed_the_same_by_any_number_of_threads() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(700, 1500), torch.randn(700, 1500)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            with torch.no_grad():
                found.append(column_products(a, b))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
