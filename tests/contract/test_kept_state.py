"""What networks keep from one pass to the next: all draws start from the same state."""

import collections
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dubio
from plain_passes import DRAWS, ROWS, Net, inputs, loop
from references import seeded

# State that is not put back: every draw starts where the one before has ended.


class Slots:
    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0


class Called:
    def __init__(self) -> None:
        self.steps = 0

    def __call__(self) -> float:
        self.steps += 1
        return self.steps


def _step(holder: Any, key: Any) -> float:
    holder[key] += 1
    return float(holder[key])


def _step_slots(holder: Any) -> float:
    holder.steps += 1
    return float(holder.steps)


def _replace_data(holder: Any) -> Tensor:
    holder.data = holder.data + 1
    return holder.clone()


KEPT: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "a Counter": (collections.Counter, lambda h: _step(h, "n")),
    "a defaultdict": (lambda: collections.defaultdict(int), lambda h: _step(h, "n")),
    "an array": (lambda: np.zeros(1), lambda h: _step(h, 0)),
    "a list in a tuple": (lambda: ([0],), lambda h: _step(h[0], 0)),
    "an object with slots": (Slots, _step_slots),
    "an object that is called": (Called, lambda h: h()),
    "data of a tensor": (lambda: torch.zeros(()), lambda h: h.data.add_(1).clone()),
    "new data of a tensor": (lambda: torch.zeros(()), _replace_data),
    "a parameter": (
        lambda: nn.Parameter(torch.zeros(()), requires_grad=False),
        lambda h: h.add_(1).clone(),
    ),
}


class Counts(Net):
    def __init__(self, case: str) -> None:
        make, self.step = KEPT[case]
        super().__init__()
        self.kept = make()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.step(self.kept)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("case", KEPT)
def test_draws_start_from_the_same_state(case: str, shared: bool) -> None:
    network, x = Counts(case), inputs()
    options: dict[str, Any] = {"draws": 6, "shared": shared}
    draws = dubio.predict(network, x, generator=seeded(), **options).draws
    expected = dubio.predict(Net(), x, generator=seeded(), **options).draws
    torch.testing.assert_close(draws, expected)
    with torch.no_grad():
        torch.testing.assert_close(network(x), 2 * Net()(x))  # in the state of one pass


def test_state_of_a_module_of_torch() -> None:
    parts = nn.Linear(6, 30), nn.Dropout(0.3), nn.Linear(30, 3)
    plain = nn.Sequential(*parts).eval()
    network: Any = nn.Sequential(*parts).eval()
    network.steps = 0

    def count(module: Any, given: Any, output: Tensor) -> Tensor:
        module.steps += 1
        return output * module.steps

    network.register_forward_hook(count)
    draws = dubio.predict(network, inputs(), draws=4, generator=seeded()).draws
    torch.testing.assert_close(
        draws, dubio.predict(plain, inputs(), draws=4, generator=seeded()).draws
    )


class Steps(Net):
    steps = 0

    def mid(self, h: Tensor) -> Tensor:
        self.steps += 1
        return h * self.steps


def test_an_attack_starts_every_draw_from_the_same_state() -> None:
    likelihood, x = dubio.likelihoods.Categorical(), inputs()
    y = torch.arange(ROWS) % 3
    network, moved = Steps(), x.clone().requires_grad_()
    noise, logs = dubio.Noise(4, generator=seeded()), []
    for k in range(4):
        with noise[k]:
            logs.append(likelihood.log_prob(copy.deepcopy(network)(moved)[None], y)[0])
    (slope,) = torch.autograd.grad(-torch.stack(logs).logsumexp(0).sum(), moved)
    found = dubio.attack.fgsm(
        network, x, y, 0.1, likelihood=likelihood, draws=4, generator=seeded(), bounds=None
    )
    assert network.steps <= 1
    torch.testing.assert_close(found, x + 0.1 * slope.sign())


# Modules in a plain list, which nobody has put into eval mode.


class NormInAPlainList(Net):
    def build(self) -> None:
        self.parts = [nn.BatchNorm1d(30)]

    def pre(self, h: Tensor) -> Tensor:
        return self.parts[0](h)


def test_modules_in_a_plain_list_are_sampled_in_eval_mode() -> None:
    network, x = NormInAPlainList(), inputs()
    before = copy.deepcopy(network.parts[0].state_dict())
    draws = dubio.predict(network, x, draws=DRAWS, generator=seeded()).draws
    assert network.parts[0].training
    torch.testing.assert_close(network.parts[0].state_dict(), before, rtol=0, atol=0)
    network.parts[0].eval()
    expected = loop(network, x)
    error = ((draws.var(0) + expected.var(0)) / DRAWS).sqrt()
    assert float(((draws.mean(0) - expected.mean(0)) / error).abs().max()) < 5.5  # alarm: 6e-7
