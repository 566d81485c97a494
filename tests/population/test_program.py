"""A recorded function of tensors is that function, for other values; or it is not recorded."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from dubio.draws import traced
from dubio.draws.program import record

Function = Callable[[Sequence[Tensor]], Sequence[Tensor]]
ELSEWHERE = torch.linspace(-1, 1, 3)


def _gradient(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    x = inputs[0].detach().requires_grad_()
    loss = (x.tanh() ** 2 * inputs[1] + x.exp()).sum()
    return [loss.detach(), *torch.autograd.grad(loss, x)]


def _writing_over_a_copy(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    copy = inputs[0].clone()
    before = copy * 2
    copy[0].mul_(3)
    return [copy, before, inputs[0] + copy]


def _several_results(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    low, high = torch.cat([inputs[0], inputs[1]]).aminmax(dim=0)
    first, *rest = inputs[0].split(1)
    return [low, high, torch.stack([first, *rest]), torch.where(first > 0, low, ELSEWHERE)]


def _writing_over_what_it_made(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    made = torch.zeros(3).fill_(2)
    return [inputs[0] * made, (inputs[0] + 1).mul_(inputs[1]).add_(ELSEWHERE)]


def _constant(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return [torch.ones_like(inputs[0]) * ELSEWHERE, inputs[0].view(-1)]


@pytest.mark.parametrize(
    "function",
    [_gradient, _writing_over_a_copy, _several_results, _writing_over_what_it_made, _constant],
)
def test_the_same_for_other_values(function: Function) -> None:
    program = record(function, [torch.full((2, 3), 0.5), torch.full((2, 3), 0.5)])
    assert program is not None
    for _ in range(3):
        inputs = [torch.randn(2, 3), torch.randn(2, 3)]
        expected = function([x.clone() for x in inputs])
        kept = [x.clone() for x in inputs]
        with torch.no_grad():
            played = program(inputs)
        assert all(map(torch.equal, played, expected))
        assert all(map(torch.equal, inputs, kept))


def _over_an_input(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return [inputs[0].t().mul_(2)]


def _over_a_constant(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    made = torch.zeros(2, 3)
    made[0] = inputs[0][1]
    return [made + inputs[0]]


def _over_a_constant_that_was_used(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    made = torch.zeros(3)
    product = inputs[0] * made
    return [product + made.fill_(2)]


def _over_another(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return [inputs[0] * ELSEWHERE.view(3).mul_(1)]


def _random(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return [inputs[0] * torch.rand(3)]


def _random_by_a_generator(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return [torch.bernoulli(inputs[0], generator=torch.Generator())]


def _noise_by_a_generator(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return [inputs[0] * torch.rand(3, generator=torch.Generator())]


def _looking(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return [inputs[0] * (2 if float(inputs[0].sum()) > 0 else 3)]


def _shaped(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return [inputs[0][inputs[1] > 0]]


def _failing(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    raise traced.UntraceableError


@pytest.mark.parametrize(
    "function",
    [
        _over_an_input,
        _over_a_constant,
        _over_a_constant_that_was_used,
        _over_another,
        _random,
        _random_by_a_generator,
        _noise_by_a_generator,
        _looking,
        _shaped,
        _failing,
    ],
)
def test_what_cannot_be_played_is_not_recorded(function: Function) -> None:
    assert record(function, [torch.full((2, 3), 0.5), torch.full((2, 3), 0.5)]) is None
