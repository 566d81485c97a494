"""Learned rates in every form of layer: they train, copy, save, and have the right derivatives."""

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Categorical
from dubio.masks import Concrete, LearnableBernoulli, Mask
from dubio.masks.mask import LearnedRate
from mask_cases import Case, every_learned_mask, every_mask
from references import seeded

KINDS: list[type[LearnedRate]] = [Concrete, LearnableBernoulli]
ROWS, CLASSES, STEPS = 40, 3, 60


class First(nn.Module):
    """The first part of what a layer returns."""

    def forward(self, parts: tuple[Tensor, ...]) -> Tensor:
        return parts[0]


class TimeFirst(nn.Module):
    """(B, T, D) to (T, B, D) and back."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1)


class LastStep(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]


class ToItself(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


def convolutional(mask: Callable[[int], Mask]) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True),
        dubio.Masked(nn.Conv2d(4, 6, 3), mask(4)), nn.ReLU(inplace=True),
        dubio.Masked(nn.ConvTranspose2d(6, 4, 2), mask(6)), nn.ReLU(inplace=True), nn.Flatten(),
        dubio.Masked(nn.Linear(36, CLASSES), mask(36)),
    )  # fmt: skip


def recurrent(mask: Callable[[int], Mask]) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(1, 2), nn.Linear(6, 6), nn.ReLU(inplace=True),  # rows of pixels are steps
        dubio.Masked(nn.LSTM(6, 8, batch_first=True), mask(6)), First(), TimeFirst(),
        dubio.Masked(nn.GRU(8, 8), mask(8)), First(), TimeFirst(), LastStep(),
        dubio.Masked(nn.Linear(8, CLASSES), mask(8)),
    )  # fmt: skip


def attentive(mask: Callable[[int], Mask]) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(1, 2), nn.Linear(6, 8), nn.ReLU(inplace=True),
        ToItself(dubio.Masked(nn.MultiheadAttention(8, 2, batch_first=True), mask(8))),
        nn.ReLU(inplace=True), LastStep(), dubio.Masked(nn.Linear(8, CLASSES), mask(8)),
    )  # fmt: skip


FORMS = {"convolutional": convolutional, "recurrent": recurrent, "attentive": attentive}


def build(form: str, kind: Callable[..., Mask], by_unit: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return FORMS[form](lambda units: kind(units if by_unit else 1, drop=0.3))


def masks(net: nn.Module) -> list[LearnedRate]:
    return [module for module in net.modules() if isinstance(module, LearnedRate)]


def data() -> tuple[Tensor, Tensor]:
    """Images 6 × 6 whose last row tells their class."""
    x = torch.randn(ROWS, 1, 6, 6, generator=seeded(1))
    y = torch.arange(ROWS) % CLASSES
    x[:, 0, -1, :CLASSES] += 3 * nn.functional.one_hot(y, CLASSES)
    return x, y


@pytest.mark.parametrize("by_unit", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_training_lowers_the_loss_and_moves_the_rates(
    form: str, kind: type[LearnedRate], by_unit: bool
) -> None:
    net, (x, y) = build(form, kind, by_unit), data()
    reach = [torch.zeros(()) for _ in masks(net)]  # how far rates went from their start
    elbo = dubio.ELBO(net, Categorical(), ROWS, generator=seeded())
    optimizer = torch.optim.Adam(elbo.parameters(), lr=0.02)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = elbo(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        moved = [(mask.drop - 0.3).abs().max() for mask in masks(net)]
        reach = list(map(torch.maximum, reach, moved))
    assert sum(losses[-10:]) < sum(losses[:10]) - 3  # by 0.3 nats a step
    assert float(elbo.nll) < 0.9  # log 3 = 1.10 is no knowledge at all
    assert min(reach) > 0.02
    assert all(((mask.drop > 0) & (mask.drop < 1)).all() for mask in masks(net))
    assert all(parameter.isfinite().all() for parameter in net.parameters())


@every_mask
def test_convert_fit_and_predict(kind: Case) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(
        nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, CLASSES)
    )
    (x, y), rule = data(), dubio.rules.replace_dropout(kind, per_unit=True)
    net, again = dubio.convert(plain, rule), dubio.convert(plain, rule)
    elbo = dubio.ELBO(net, Categorical(), ROWS, generator=seeded())
    adam = partial(torch.optim.Adam, lr=0.02)
    history = dubio.fit(elbo, (x, y), epochs=40, batch_size=20, optimizer=adam, progress=False)
    losses = [epoch.loss for epoch in history]
    assert sum(losses[-5:]) < sum(losses[:5]) - 1  # by 0.2 nats
    for (name, one), other in zip(net.named_parameters(), again.parameters(), strict=True):
        assert one.isfinite().all(), name
        assert not torch.equal(one, other), name
    found = dubio.predict(net, x, draws=5, likelihood=Categorical(), generator=seeded())
    assert found.draws.std(0).min() > 0
    again.load_state_dict(net.state_dict())
    twin = dubio.predict(again, x, draws=5, likelihood=Categorical(), generator=seeded())
    assert torch.equal(found.draws, twin.draws)


@every_learned_mask
@pytest.mark.parametrize("form", FORMS)
def test_an_ordinary_loop_gives_gradients_to_everything(form: str, kind: Case) -> None:
    net, (x, y) = build(form, kind).train(), data()
    loss = nn.functional.cross_entropy(net(x), y) + dubio.kl(net) / ROWS
    loss.backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@every_learned_mask
@pytest.mark.parametrize("form", FORMS)
def test_copies_and_checkpoints_go_on_alike(form: str, kind: Case) -> None:
    net, (x, y) = build(form, kind), data()
    twin, loaded = copy.deepcopy(net), build(form, kind)
    for one in (net, twin):
        dubio.ELBO(one, Categorical(), ROWS, generator=seeded())(x, y).backward()
        torch.optim.SGD(one.parameters(), lr=0.5).step()
    loaded.load_state_dict(net.state_dict())
    losses = [
        dubio.ELBO(one, Categorical(), ROWS, generator=seeded())(x, y).item()
        for one in (net, twin, loaded, build(form, kind))
    ]
    assert losses[0] == losses[1] == losses[2]
    assert losses[0] != losses[3]


@every_learned_mask
@pytest.mark.parametrize("form", FORMS)
def test_gradcheck_in_float64_under_fixed_noise(form: str, kind: Case) -> None:
    """Of masked weights and inputs, and of the logits where the mask is smooth in them."""
    net = build(form, kind).double()
    for module in net.modules():
        if isinstance(module, Concrete):
            module.temperature = 0.5
    x = data()[0][:2].double().requires_grad_()
    noise = dubio.Noise(generator=seeded())
    chosen = {
        name: parameter
        for name, parameter in net.named_parameters()
        if "bias" not in name and (kind.smooth or ".mask." not in name)
    }

    def outputs(x: Tensor, *values: Tensor) -> Tensor:
        with noise[0]:
            return torch.func.functional_call(net, dict(zip(chosen, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(outputs, (x, *chosen.values()), fast_mode=True)
