"""Steps that are played again from a recording are the steps that would have been computed."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

import dubio
from alone import BATCH, MEMBERS, NETWORKS, N, assert_same, data, objectives, train_alone
from dubio.noise import register as registry
from dubio.population import recording
from dubio.population.recording import Steps
from mask_cases import MASKS


@pytest.fixture
def made(recordings: list[bool], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record the second step of every stack; whether there was a recording, one by one."""
    monkeypatch.setattr(recording, "STEPS_BEFORE", 2)
    return recordings


def _fit(members: list[nn.Module], **options: Any) -> Any:
    x, y = data()
    settings = {"steps": 6, "batch_size": BATCH, "learning_rate": 1e-2} | options
    return dubio.Population(members, range(MEMBERS)).fit(x, y, **settings)


@pytest.mark.parametrize("kind", ["dropout", *MASKS, "tied", "bayes mixture"])
def test_the_same_bits_as_without(
    kind: str, made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind in MASKS:  # those of tests, as if they were dubio's: others are not recorded
        monkeypatch.setattr(type(MASKS[kind]()), "__module__", "dubio.masks")
    played, computed = objectives(kind), objectives(kind)
    outcome = _fit(played)
    assert made == [True]
    monkeypatch.setattr(recording, "STEPS_BEFORE", 10**9)
    assert torch.equal(_fit(computed).loss, outcome.loss)
    assert made == [True]
    for one, other in zip(played, computed, strict=True):
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(p, q)


@pytest.mark.parametrize("kind", ["plain", "dropout", "bayes mixture"])
def test_members_that_differ_in_no_number_are_recorded(kind: str, made: list[bool]) -> None:
    likelihood = dubio.likelihoods.Gaussian(2.0)  # whose precision becomes a tensor in every step
    members = [dubio.ELBO(NETWORKS[kind](0), likelihood, N) for _ in range(MEMBERS)]
    alone = copy.deepcopy(members)
    _fit(members)
    assert made == [True]
    for m, twin in enumerate(alone):
        train_alone(twin, m, np.arange(N), 1e-2, 6)
        assert_same(twin, members[m])


def test_those_who_stay_are_recorded_anew(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [torch.arange(n) for n in (10, 60, 40)]
    played, computed = (objectives("tied", rows=[10, 60, 40]) for _ in range(2))
    options = {"rows": rows, "steps": None, "epochs": 3}
    assert _fit(played, **options).steps.tolist() == [2, 12, 8]
    assert made == [True] * 3
    monkeypatch.setattr(recording, "STEPS_BEFORE", 10**9)
    _fit(computed, **options)
    for one, other in zip(played, computed, strict=True):
        assert_same(one, other)


def test_a_schedule_is_followed(made: list[bool]) -> None:
    members = objectives("bernoulli")
    for member in members:
        member._kl_weight = dubio.schedules.warm_up(10)
    alone = copy.deepcopy(members)
    _fit(members)
    assert made == []
    for m, twin in enumerate(alone):
        train_alone(twin, m, np.arange(N), 1e-2, 6)
        assert_same(twin, members[m])


class Annealed(nn.Module):
    """Depends on how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 1)
        self.calls = 0

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        self.calls += 1
        return (self.net(x) - y).square().mean() / self.calls


def _with_hook(member: nn.Module) -> None:
    member.model.register_forward_hook(lambda module, args, output: 2 * output)


def _with_selection(member: nn.Module) -> None:
    member.select = lambda output: output


@pytest.mark.parametrize("change", [_with_hook, _with_selection])
def test_code_of_others_is_called_in_every_step(change: Any, made: list[bool]) -> None:
    members = objectives("plain")
    for member in members:
        change(member)
    _fit(members)
    _fit([Annealed() for _ in range(MEMBERS)])
    assert made == []


def test_registered_code_and_global_hooks_are_called_in_every_step(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    class OfATorchClass(nn.Identity):
        pass

    calls: list[str] = []
    monkeypatch.setattr(nn.Identity, "forward", nn.Identity.forward)
    monkeypatch.setattr(registry, "_registered", {})
    OfATorchClass.__module__ = nn.Identity.__module__

    def sample(module: nn.Module, noise: Any, x: Tensor) -> Tensor:
        calls.append("registered")
        return x

    dubio.register(nn.Identity, sample)
    for kind in (nn.Identity, OfATorchClass):
        members = objectives("plain")
        for member in members:
            member.model.append(kind())
        _fit(members)
        assert calls.count("registered") >= 6
        calls.clear()

    handle = register_module_forward_hook(lambda *_: calls.append("hook"))
    try:
        _fit(objectives("plain"))
    finally:
        handle.remove()
    assert calls.count("hook") >= 6 * 4
    assert made == []


class Doubling(nn.Module):
    """Writes over its targets."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.net(x) - y.mul_(2)).square().mean()


def test_a_step_that_writes_over_what_it_is_given_is_not_recorded(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "repeats", lambda skeleton: True)
    members = [Doubling() for _ in range(MEMBERS)]
    _fit(members)
    assert made == [False]


def test_other_strides_of_the_noise_are_recorded_anew(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    stack_steps: list[Tensor] = []
    call = Steps.__call__

    def laid_out_anew(self: Steps, x: Tensor, y: Tensor, noise: Any) -> Any:
        stack_steps.append(x)
        if len(stack_steps) > 3:
            noise = {k: v.transpose(0, 1).contiguous().transpose(0, 1) for k, v in noise.items()}
        return call(self, x, y, noise)

    expected, members = objectives("bernoulli"), objectives("bernoulli")
    _fit(expected)
    monkeypatch.setattr(Steps, "__call__", laid_out_anew)
    _fit(members)
    assert made == [True, True, True]
    for one, other in zip(expected, members, strict=True):
        assert_same(one, other)
