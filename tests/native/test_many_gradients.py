"""Gradients in many directions at once (`is_grads_batched`), for which torch runs a vmap."""

from functools import partial
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

import dubio

Kind = Literal["dropout", "masked", "weights", "local", "flipout"]


def network(kind: Kind) -> nn.Module:
    if kind == "dropout":
        return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Dropout(0.4), nn.Linear(9, 2))
    if kind == "masked":
        mask = dubio.masks.Concrete(9)
        return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), dubio.Masked(nn.Linear(9, 2), mask))
    first = dubio.BayesLinear(6, 9, sampler=kind, deviation=0.2)
    second = dubio.BayesLinear(9, 2, sampler=kind, deviation=0.2)
    return nn.Sequential(first, nn.Tanh(), second)


@pytest.mark.parametrize("kind", ["dropout", "masked", "weights", "local", "flipout"])
def test_many_gradients_at_once_are_those_one_by_one(kind: Kind) -> None:
    net, x = network(kind).train(), torch.randn(5, 6, requires_grad=True)
    learned = [x, *(p for p in net.parameters() if p.requires_grad)]
    with dubio.Noise(generator=0):
        y = net(x)
    gradients = partial(torch.autograd.grad, y, learned, retain_graph=True, allow_unused=True)
    directions = torch.eye(y.numel()).view(-1, *y.shape)
    found = gradients(directions, is_grads_batched=True)
    for k, direction in enumerate(directions):
        for many, one in zip(found, gradients(direction), strict=True):
            if one is not None:
                torch.testing.assert_close(many[k], one)


@pytest.mark.parametrize("kind", ["dropout", "masked", "weights", "local", "flipout"])
def test_rows_by_vmap_have_the_noise_of_a_row(kind: Kind) -> None:
    net, x = network(kind).train(), torch.randn(5, 6)

    def one_row(row: Tensor) -> Tensor:
        with dubio.Noise(generator=0):
            y: Tensor = net(row[None])[0]
        return y

    found = torch.func.vmap(one_row, randomness="same")(x)
    torch.testing.assert_close(found, torch.stack([one_row(row) for row in x]))
