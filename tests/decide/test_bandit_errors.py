"""Bad input: each mistake is an error that says what to do, and leaves the agent as it was."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bandit_runs import ACTIONS, WIDTH, context, made, with_dropout
from dubio import decide
from dubio.decide import Bandit
from dubio.likelihoods import Bernoulli, Gaussian

X = torch.ones(2, WIDTH)

MISTAKES: dict[str, tuple[Callable[[Bandit], Any], type[Exception], str]] = {
    "nan reward": (
        lambda a: a.update([0], [math.nan]),
        ValueError,
        "rewards: .* got 1 that are NaN",
    ),
    "infinite": (lambda a: a.update([0], [math.inf]), ValueError, "rewards: .* NaN or infinite"),
    "too large": (lambda a: a.update([0], [1e39]), ValueError, "rewards: .* fit torch.float32"),
    "unknown id": (
        lambda a: a.update([7], [1.0]),
        KeyError,
        "got 7, which are unknown .*3 choices",
    ),
    "negative id": (lambda a: a.update([-1], [1.0]), KeyError, "got -1, which are unknown"),
    "answered": (lambda a: a.update([2], [1.0]), ValueError, "got 2, which were answered or forgo"),
    "some answered": (lambda a: a.update([0, 2], [1.0, 1.0]), ValueError, "got 2, which were answ"),
    "twice": (lambda a: a.update([0, 0], [1.0, 1.0]), ValueError, "expected each id once, got 0"),
    "forgotten": (lambda a: a.forget([2]), ValueError, "got 2, which were answered or forgotten"),
    "forget unknown": (lambda a: a.forget([9]), KeyError, "got 9, which are unknown"),
    "real ids": (lambda a: a.update([0.5], [1.0]), ValueError, "ids: expected whole numbers"),
    "number": (
        lambda a: a.update([0, 1], [1.0]),
        ValueError,
        r"expected 2 numbers, got shape \(1,",
    ),
    "no rewards": (lambda a: a.update([0]), TypeError, r"update\(choice.id, rewards\)"),
    "text": (lambda a: a.update([0], ["a"]), TypeError, "rewards: expected numbers, got list"),
    "weights of ids": (
        lambda a: a.update([0], [1.0], weight=[1.0]),
        TypeError,
        "weight: expected N",
    ),
    "none allowed": (
        lambda a: a.choose(X, [[True] * 3, [False] * 3]),
        ValueError,
        "allowed: expected at least one action .* none in 1 rows, first in row 1",
    ),
    "allowed shape": (lambda a: a.choose(X, [True]), ValueError, r"shape \(3,\) or \(2, 3\), got"),
    "allowed type": (
        lambda a: a.choose(X, [1, 0, 1]),
        ValueError,
        "allowed: expected True or False",
    ),
    "width": (lambda a: a.choose(torch.ones(1, 4)), ValueError, "expected 3 numbers .* got 4"),
    "width, ask": (
        lambda a: a.expected(torch.ones(1, 4)),
        ValueError,
        "expected 3 numbers .* got 4",
    ),
    "width, learn": (
        lambda a: a.update(torch.ones(1, 4), [0], [1.0]),
        ValueError,
        "contexts: expected 3 numbers in each as before, got 4",
    ),
    "one row": (lambda a: a.choose(torch.ones(3)), ValueError, r"pass contexts\[None\]"),
    "no rows": (lambda a: a.choose(torch.ones(0, 3)), ValueError, "at least one"),
    "nan context": (lambda a: a.choose(X * math.nan), ValueError, "in 2 rows, first in row 0"),
    "action": (
        lambda a: a.update(X, [0, 3], [1.0, 1.0]),
        ValueError,
        "from 0 to 2, got some from 0",
    ),
    "real action": (
        lambda a: a.update(X, [0.0, 1.0], [1, 1]),
        ValueError,
        "actions: expected 2 who",
    ),
    "weight": (
        lambda a: a.update(X, [0, 1], [1, 1], [1, -1]),
        ValueError,
        "weight: expected numbe",
    ),
    "steps": (lambda a: a.train(-1), ValueError, "steps: expected a whole number >= 0, got -1"),
    "draws": (lambda a: a.expected(X, draws=0), ValueError, "draws: expected a whole number >= 1"),
    "complex context": (
        lambda a: a.choose(X + 0j),
        TypeError,
        "contexts: expected real numbers, got torch.complex64",
    ),
    "complex reward": (
        lambda a: a.update([0], torch.ones(1) + 1j),
        TypeError,
        "rewards: expected real numbers",
    ),
    "complex action": (
        lambda a: a.update(X, torch.ones(2) + 0j, [1, 1]),
        TypeError,
        "actions: expected real numbers",
    ),
    "log": (lambda a: a.log, ValueError, "pass keep_log=True"),
}


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str, kept: bool, tmp_path: Any) -> None:
    call, kind, message = MISTAKES[mistake]
    agent, twin = made("plain"), made("plain")
    for one in (agent, twin):
        one.choose(context(2))
        one.update([2], [1.0])
    if kept:
        agent.keep_in(tmp_path)
    with pytest.raises(kind, match=message):
        call(agent)
    agent = Bandit.load(tmp_path) if kept else agent
    assert agent.pending.tolist() == [0, 1]
    assert agent.remembered == 1
    for one in (agent, twin):
        one.update([1, 0], [1.0, 0.0])
    here, there = agent.choose(context(2)), twin.choose(context(2))
    assert torch.equal(here.action, there.action)
    assert torch.equal(agent.expected(X), twin.expected(X))


def test_rewards_that_the_likelihood_does_not_know() -> None:
    agent = decide.Bandit(with_dropout(), ACTIONS, likelihood=Bernoulli())
    choice = agent.choose(X)
    with pytest.raises(ValueError, match="expected only 0 and 1"):
        agent.update(choice.id, [0.5, 1.0])
    assert agent.pending.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"rule": "best"}, ValueError, "rule: expected one of thompson, greedy, epsilon, upper"),
        ({"actions": 1}, ValueError, "actions: expected a whole number >= 2, got 1"),
        (
            {"net": with_dropout().bfloat16(), "actions": 258},
            ValueError,
            "actions: expected at most 257 for a network of torch.bfloat16, .* got 258",
        ),
        ({"memory": 0}, ValueError, "memory: expected a whole number >= 1, got 0"),
        ({"functions": 1.5}, ValueError, "functions: expected a whole number >= 1, got 1.5"),
        ({"floor": 0.4}, ValueError, "floor: expected at most 1 / 3 for 3 actions, got 0.4"),
        ({"epsilon": 2}, ValueError, "epsilon: expected a number from 0 to 1, got 2"),
        ({"learning_rate": -1.0}, ValueError, "learning_rate: expected a number >= 0, got -1"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate: expected a number, got 'fast'"),
        ({"rule": "upper", "functions": 1}, ValueError, "functions: expected at least 2"),
        ({"likelihood": "normal"}, TypeError, "likelihood: expected an instance"),
        ({"net": []}, TypeError, "net: expected an nn.Module or several"),
        ({"net": nn.ReLU()}, ValueError, "net: expected parameters that can be trained"),
        (
            {"net": [with_dropout()] * 2},
            ValueError,
            "expected different networks, got 2 of which 1",
        ),
        ({"action_features": "hot"}, ValueError, "action_features: expected 'one-hot'"),
        ({"action_features": torch.ones(2, 4)}, ValueError, r"expected finite .* \(3, F\)"),
        ({"optimizer": torch.optim.LBFGS}, TypeError, "optimizer: .* no closure, got LBFGS"),
        ({"optimizer": lambda p: 1}, TypeError, "optimizer: expected a function from parameters"),
    ],
)
def test_settings(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    known = {"net": with_dropout(), "actions": ACTIONS, "likelihood": Gaussian(1.0)}
    with pytest.raises(kind, match=message):
        decide.Bandit(**(known | options))


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("mistake", ["contexts", "outputs"])
def test_a_first_update_that_does_not_fit_the_network(steps: int, mistake: str) -> None:
    outputs = ACTIONS + 1 if mistake == "outputs" else ACTIONS
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(WIDTH, outputs))
    agent = decide.Bandit(net, ACTIONS, likelihood=Gaussian(1.0))
    x = torch.ones(2, WIDTH + 1) if mistake == "contexts" else X
    with pytest.raises((ValueError, RuntimeError), match=r"expected outputs|cannot be multiplied"):
        agent.update(x, [0, 1], [1.0, 1.0], steps=steps)
    assert agent.remembered == agent.interactions == 0
    if mistake == "contexts":
        agent.choose(X)  # it does not wait for the wrong ones


class Whole(nn.Module):
    """A network that takes whole numbers and others."""

    def __init__(self) -> None:
        super().__init__()
        self.net = with_dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.net(x.float())
        return outputs


def test_contexts_are_not_rounded_to_whole_numbers(tmp_path: Path) -> None:
    agent = decide.Bandit(Whole(), ACTIONS, likelihood=Gaussian(1.0))
    agent.update(X.long(), [0, 1], [1.0, 1.0])
    agent.save(tmp_path)
    for one in (agent, Bandit.load(tmp_path)):
        with pytest.raises(ValueError, match="contexts: expected whole numbers as before, got tor"):
            one.update(X + 0.5, [0, 1], [1.0, 1.0])


def test_whole_numbers_become_floating_ones_if_others_were() -> None:
    agent = decide.Bandit(with_dropout(), ACTIONS, likelihood=Gaussian(1.0))
    choice = agent.choose(X + 0.5)
    agent.update(X.long(), [0, 1], [1.0, 1.0])
    agent.update(choice.id, [1.0, 1.0])
    remembered = agent._learner.experience.take(torch.arange(4))[0]
    assert torch.equal(remembered, torch.cat([X, X + 0.5]))


def test_the_rule_upper_needs_two_functions() -> None:
    agent = decide.Bandit(with_dropout(), ACTIONS, likelihood=Gaussian(1.0), rule="upper")
    with pytest.raises(ValueError, match="draws: expected a whole number >= 2, got 1"):
        agent.probabilities(X, draws=1)
    assert agent.expected(X, draws=1).isfinite().all()


@pytest.mark.parametrize("factor", [-1.0, math.nan, math.inf])
def test_schedules(factor: float) -> None:
    net = with_dropout()
    agent = decide.Bandit(net, ACTIONS, likelihood=Gaussian(1.0), schedule=lambda n: factor)
    before = [value.clone() for value in net.state_dict().values()]
    with pytest.raises(ValueError, match="schedule: expected a factor >= 0"):
        agent.update(X, [0, 1], [1.0, 1.0])
    assert all(torch.equal(*pair) for pair in zip(before, net.state_dict().values(), strict=True))


class TestNetworks:
    def test_with_parameters_that_the_optimiser_does_not_know(self) -> None:
        net = nn.Sequential(nn.Linear(WIDTH, 8), nn.Dropout(0.5), nn.Linear(8, ACTIONS))
        net[0].requires_grad_(False)
        agent = decide.Bandit(net, ACTIONS, likelihood=Gaussian(1.0))
        agent.update(X, [0, 1], [1.0, 1.0])
        net[0].requires_grad_(True)
        with pytest.raises(ValueError, match="got others that its optimiser does not know"):
            agent.train(1)

    def test_without_noise(self) -> None:
        agent = decide.Bandit(nn.Linear(WIDTH, ACTIONS), ACTIONS, likelihood=Gaussian(1.0))
        with pytest.raises(ValueError, match=r"expected noise, or several networks.*thompson"):
            agent.choose(X)

    def test_of_another_number_of_actions(self) -> None:
        agent = decide.Bandit(with_dropout(), 2, likelihood=Gaussian(1.0))
        with pytest.raises(ValueError, match=r"one reward for each of 2 actions, got .*\(2, 3\)"):
            agent.choose(X)

    def test_of_several_rewards_per_pair(self) -> None:
        agent = decide.Bandit(
            nn.Sequential(nn.Dropout(), nn.Linear(WIDTH + 2, 2)),
            2,
            likelihood=Gaussian(1.0),
            action_features="one-hot",
        )
        with pytest.raises(ValueError, match="one reward for each of 4 pairs"):
            agent.choose(X)

    def test_that_are_broken(self) -> None:
        net = nn.Sequential(nn.Dropout(0.5), nn.Linear(WIDTH, ACTIONS))
        agent = decide.Bandit(net, ACTIONS, likelihood=Gaussian(1.0))
        agent.choose(X)
        state = agent._choosing.get_state()
        with torch.no_grad():
            net[1].bias.fill_(math.nan)
        with (
            pytest.warns(RuntimeWarning, match="NaN"),
            pytest.raises(FloatingPointError, match="net: expected finite rewards, got NaN"),
        ):
            agent.choose(X)
        assert torch.equal(agent._choosing.get_state(), state)
        assert agent.choices == 2
