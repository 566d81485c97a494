"""Gradients through predictions against a loop of passes under the same noise."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import dubio
from dubio.draws.prepared import Prepared
from dubio.likelihoods import Categorical

DRAWS = 6


def inputs() -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()


def dropout() -> nn.Module:
    return nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Tanh(), nn.Linear(8, 2)
    )


def learned() -> nn.Module:
    return nn.Sequential(
        nn.Linear(3, 8), nn.Tanh(), dubio.Masked(nn.Linear(8, 2), dubio.masks.Concrete())
    )


def bayes() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), dubio.BayesLinear(8, 2))


class Branching(nn.Module):
    """Cannot be taped: a branch depends on sampled values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(nn.functional.dropout(x, training=True))
        return y if y.sum() > 0 else 2 * y


def made(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("make", [dropout, learned, bayes, Branching])
def test_they_are_those_of_a_loop(make: Callable[[], nn.Module], shared: bool) -> None:
    net, x = made(make), inputs()
    p = dubio.predict(net, x, draws=DRAWS, generator=0, shared=shared, gradients=True)
    plain = dubio.predict(net, x, draws=DRAWS, generator=0, shared=shared)
    assert not plain.draws.requires_grad
    torch.testing.assert_close(p.draws.detach(), plain.draws)

    net.eval()
    noise = dubio.Noise(DRAWS, shared=shared, generator=0)
    loop = []
    for k in range(DRAWS):
        with noise[k]:
            loop.append(net(x))
    expected_draws = torch.stack(loop)
    torch.testing.assert_close(p.draws, expected_draws)
    wanted = [x, *net.parameters()]
    expected = torch.autograd.grad(expected_draws.var(0, correction=0).sum(), wanted)
    found = torch.autograd.grad(p.variance.sum(), wanted)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_a_likelihood_passes_them_on() -> None:
    net, x = made(dropout), inputs()
    p = dubio.predict(net, x, draws=DRAWS, likelihood=Categorical(), generator=0, gradients=True)
    y = torch.tensor([0, 1, 0, 1, 1])
    (found,) = torch.autograd.grad(p.log_prob(y).sum(), x, retain_graph=True)
    probabilities = p.draws.softmax(-1).mean(0)
    (expected,) = torch.autograd.grad(probabilities[torch.arange(5), y].log().sum(), x)
    torch.testing.assert_close(found, expected)


def test_batches_and_an_ensemble() -> None:
    x, nets = inputs(), [made(dropout), nn.Linear(3, 2)]
    batches = [x[:2], x[2:]]
    p = dubio.predict(nets, batches, draws=3, generator=0, gradients=True)
    plain = dubio.predict(nets, batches, draws=3, generator=0)
    torch.testing.assert_close(p.draws.detach(), plain.draws)
    (found,) = torch.autograd.grad(p.draws[3:].sum(), x, retain_graph=True)
    torch.testing.assert_close(
        found, 3 * nets[1].get_parameter("weight").sum(0).expand(5, 3).detach()
    )
    by_both = torch.autograd.grad(p.mean[0].sum(), [x, nets[0].get_parameter("0.weight")])
    assert all(gradient.abs().sum() > 0 for gradient in by_both)


def test_an_ensemble_of_which_some_members_are_frozen() -> None:
    nets, x = [made(dropout).requires_grad_(False), nn.Linear(3, 2)], inputs().detach()
    with torch.no_grad():
        p = dubio.predict(nets, x, draws=3, gradients=True)
    assert p.draws.requires_grad
    with pytest.raises(ValueError, match="requires_grad_"):
        dubio.predict(nets[:1], x, draws=3, gradients=True)


def test_nothing_is_left_changed() -> None:
    net, x = made(dropout), inputs()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():
        p = dubio.predict(net, x, draws=3, gradients=True, generator=0)
    assert p.draws.requires_grad
    assert net.training
    assert x.grad is None
    torch.testing.assert_close(dict(net.state_dict()), before, rtol=0, atol=0)


class Checkpointing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 2), nn.Dropout())

    def forward(self, x: Tensor) -> Any:
        return checkpoint(self.layers, x, use_reentrant=False)


def test_where_there_are_none() -> None:
    x = inputs().detach()
    net = made(dropout)
    with pytest.raises(ValueError, match="expected keep_draws=True"):
        dubio.predict(net, x, gradients=True, keep_draws=False)
    with pytest.raises(TypeError, match="True or False"):
        dubio.predict(net, x, gradients=1)  # type: ignore[arg-type]
    with torch.inference_mode(), pytest.raises(RuntimeError, match="inference_mode"):
        dubio.predict(net, x, gradients=True)
    with pytest.raises(NotImplementedError, match="checkpoint"):
        dubio.predict(Checkpointing(), x, gradients=True)
    with pytest.raises(ValueError, match="requires_grad_"):
        dubio.predict(net.requires_grad_(False), x, gradients=True)


class Partly(nn.Module):
    """Has no gradients in a part of it, which a tape does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.dropout(self.first(x), training=True)
        with torch.no_grad():
            gate = torch.sigmoid(hidden)
        return self.second(gate * hidden)  # type: ignore[no-any-return]


class Straight(torch.autograd.Function):
    """Rounds, with a derivative of one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        return slopes[0]


class Rounding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.Dropout())
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(Straight.apply(4 * self.layers(x)))  # type: ignore[no-any-return]


class Overwriting(nn.Module):
    """A value that a derivative needs is written over by a ReLU of the tape."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.Tanh(), nn.ReLU())
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers(x))  # type: ignore[no-any-return]


def relus() -> nn.Module:
    return nn.Sequential(
        nn.Linear(3, 8),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(8, 8),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(8, 2),
    )


ON_A_TAPE = [relus, dropout, bayes, learned]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("make", [*ON_A_TAPE, Branching, Partly, Rounding, Overwriting])
def test_a_predictor_has_them(make: Callable[[], nn.Module], shared: bool) -> None:
    net = made(make)
    predictor = dubio.Predictor(net, draws=DRAWS, shared=shared)
    for number in range(3):
        x = (inputs().detach() + number).requires_grad_()
        plain = dubio.predict(net, x, draws=DRAWS, generator=number, shared=shared, gradients=True)
        p = predictor(x, number, gradients=True)
        torch.testing.assert_close(p.draws, plain.draws)
        wanted = [x, *net.parameters()]
        torch.testing.assert_close(
            torch.autograd.grad(p.variance.sum(), wanted),
            torch.autograd.grad(plain.variance.sum(), wanted),
            rtol=1e-4,
            atol=1e-6,
        )
        assert not predictor(x, number).draws.requires_grad


@pytest.mark.parametrize("make", ON_A_TAPE)
def test_a_predictor_runs_the_network_for_the_first_ones_only(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = dubio.Predictor(made(make), draws=DRAWS, shared=True)
    x = inputs()
    predictor(x, 0, gradients=True)
    monkeypatch.setattr(Prepared, "_engine", None)  # by which it would run
    assert predictor((2 * x.detach()).requires_grad_(), 1, gradients=True).draws.requires_grad


def test_where_a_predictor_has_none() -> None:
    net, x = made(dropout), inputs().detach()
    predictor = dubio.Predictor(net.requires_grad_(False), draws=DRAWS)
    with pytest.raises(ValueError, match="requires_grad_"):
        predictor(x, gradients=True)
    with pytest.raises(TypeError, match="True or False"):
        predictor(x, gradients=1)  # type: ignore[arg-type]
    assert predictor(inputs(), gradients=True).draws.requires_grad
    batches = predictor([inputs(), inputs()], 0, gradients=True)
    assert batches.draws.requires_grad
