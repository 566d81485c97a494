"""Q-learning: golden values of ConvNetJS, rules of exploration, replay, and misuse."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dubio_studies.agents.exploration import Annealed, Constant, Exploration
from dubio_studies.agents.networks import q_network
from dubio_studies.agents.q_learning import QLearners, QLearningSettings
from dubio_studies.agents.replay import Replay, Transitions

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "q_learning.json").read_text(encoding="utf-8")
)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("age", [int(age) for age in GOLDEN["epsilon"]])
def test_the_share_of_random_actions_is_the_published_one(age: int) -> None:
    assert Annealed()(age) == pytest.approx(GOLDEN["epsilon"][str(age)], abs=1e-12)


def test_one_update_is_the_published_one() -> None:
    golden = GOLDEN["td_update"]
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    with torch.no_grad():
        for parameter, name in zip(net.parameters(), ("W1", "b1", "W2", "b2"), strict=True):
            parameter.copy_(torch.tensor(golden[name], dtype=torch.float64))
    learning = QLearningSettings(
        discount=golden["gamma"], batch_size=golden["batch_size"],
        learning_rate=golden["learning_rate"], weight_decay=golden["l2_decay"],
    )  # fmt: skip
    agents = QLearners([[net]], 2, Exploration(), learning, seeds=[0])
    x, actions, rewards, next_x = (
        torch.tensor([column], dtype=torch.float64)
        for column in zip(*golden["transitions"], strict=True)
    )
    values = agents.values(x)
    torch.testing.assert_close(values[0], torch.tensor(golden["q"], dtype=torch.float64), **CLOSE)
    batch = Transitions(x, actions, rewards, torch.zeros_like(rewards), next_x)
    agents.learn(batch, agents.values(next_x))
    agents.write()
    for parameter, name in zip(net.parameters(), ("W1", "b1", "W2", "b2"), strict=True):
        expected = torch.tensor(golden[f"{name}_after"], dtype=torch.float64)
        torch.testing.assert_close(parameter.detach(), expected, **CLOSE)


def test_a_full_memory_overwrites_random_transitions() -> None:
    replay = Replay([0, 1], 4, torch.float64)
    for tick in range(200):
        x = torch.full((2, 1), float(tick))
        which = np.array([True, tick % 2 == 0])
        replay.add(x, np.array([0, 1]), np.full(2, -1.0), which, x + 1, which)
    assert replay.counts.tolist() == [4, 4]
    batch = replay.sample(3, 200)  # misses one of four with a chance of (3/4)^600 < 1e-74
    assert batch.x.shape == (6, 200, 1)
    assert torch.equal(batch.next_x, batch.x + 1)
    assert set(batch.actions[:3].unique().tolist()) == {0.0}
    assert set(batch.actions[3:].unique().tolist()) == {1.0}
    for agent, own in enumerate(batch.x.view(2, 3, 200)):
        kept = own.unique().tolist()
        assert len(kept) == 4
        assert all(tick % (agent + 1) == 0 for tick in kept)  # its own transitions
        assert min(kept) >= 8  # a first one is left with a chance of 8 (3/4)^96 < 1e-11


def test_a_memory_that_is_not_full_keeps_all_in_order() -> None:
    replay = Replay([0], 4, torch.float64)
    with pytest.raises(RuntimeError, match="expected transitions"):
        replay.sample(1, 2)
    for tick in range(3):
        x = torch.full((1, 1), float(tick))
        replay.add(x, np.array([0]), np.zeros(1), np.array([False]), x, np.array([True]))
    assert sorted(replay.sample(1, 200).x.unique().tolist()) == [0, 1, 2]  # but for 3 (2/3)^200
    with pytest.raises(ValueError, match="capacity"):
        Replay([0], 0, torch.float32)


def agents_of(
    kind: Any = "dropout", explore: Exploration | None = None, members: int = 1, **learning: Any
) -> QLearners:
    sizes = (3, 8, 8, 4)
    nets = [
        [q_network(kind, sizes, seed=10 * s + k, drop=0.5) for k in range(members)] for s in (1, 2)
    ]
    settings = QLearningSettings(**{"start": 5, "batch_size": 4, **learning})
    return QLearners(nets, 4, explore or Exploration(), settings, seeds=[1, 2])


def believed(agents: QLearners, x: np.ndarray[Any, Any]) -> torch.Tensor:
    """The values that agents go by."""
    agents._x = torch.from_numpy(x)
    return agents._values(None)[0]


@pytest.mark.parametrize(("hold", "same"), [(1, 1), (3, 3), (None, 10)])
def test_a_function_is_held_for_as_many_ticks(hold: int | None, same: int) -> None:
    agents = agents_of(explore=Exploration(hold))
    x = np.ones((2, 3), dtype=np.float32)
    seen = []
    for _ in range(10):  # nothing is observed, so that weights stay
        seen.append(believed(agents, x))
        agents.act(x)
    for tick in range(9):
        equal = torch.equal(seen[tick], seen[tick + 1])
        assert equal == ((tick + 1) % same != 0)
    before = believed(agents, x)
    agents.start_episodes(np.array([True, False]))
    after = believed(agents, x)
    if hold != 1:
        assert not torch.equal(before[0], after[0])
        assert torch.equal(before[1], after[1])  # the other agent's episode goes on


def test_a_held_function_is_one_for_all_states() -> None:
    """A network with the mask of ones and zeros that explains one state explains another."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Dropout(0.5), nn.Linear(2, 4))
    agents = QLearners([[net]], 4, Exploration(None), QLearningSettings(), seeds=[4])
    numbers = set()
    for _ in range(6):
        explained = None
        for _ in range(3):
            x = np.abs(np.random.default_rng(len(numbers)).normal(size=(1, 3))).astype(np.float32)
            values = believed(agents, x)[0]
            hidden = net[1](net[0](torch.from_numpy(x)))[0]
            fits = {
                bits
                for bits in range(4)
                if torch.allclose(
                    values,
                    net[3](hidden * torch.tensor([2.0 * (bits & 1), 2.0 * (bits >> 1)])),
                    atol=1e-6,
                )
            }
            explained = fits if explained is None else explained & fits
            agents.act(x)
        assert explained
        numbers |= explained
        agents.start_episodes(np.array([True]))
    assert len(numbers) > 1


def test_an_ensemble_believes_in_one_member_an_episode() -> None:
    agents = agents_of("prior", Exploration(None), members=3)
    x = np.ones((2, 3), dtype=np.float32)
    found = set()
    for _ in range(40):  # misses one of 3 members with a chance below 3 (2/3)^40 < 3e-7
        every = agents.values(torch.ones(6, 1, 3))[:, 0].view(2, 3, 4)
        own = believed(agents, x)
        which = [next(k for k in range(3) if torch.equal(own[a], every[a, k])) for a in (0, 1)]
        found.add(which[0])
        agents.start_episodes(np.ones(2, dtype=np.bool_))
    assert found == {0, 1, 2}


def test_shares_of_random_actions() -> None:
    explore = Exploration(epsilon=Constant(0.25), random_ticks=5)
    assert [explore.share_of_random_actions(age) for age in (0, 4, 5)] == [1.0, 1.0, 0.25]
    agents = agents_of("plain", explore)
    x = np.ones((2, 3), dtype=np.float32)
    best = believed(agents, x).argmax(-1).numpy()
    actions = np.array([agents.act(x) for _ in range(2005)])
    counts = (actions[5:] == best).sum(0)
    # 0.75 + 0.25/4 of 2,000; eight standard deviations: false alarms below 1e-14
    assert np.abs(counts - 1625).max() < 8 * np.sqrt(2000 * 0.8125 * 0.1875)


def test_targets_are_those_of_a_naive_loop() -> None:
    agents = agents_of("plain", discount=0.9)
    net = copy.deepcopy(agents._nets[0][0])
    generator = torch.Generator().manual_seed(0)
    x, next_x = torch.rand(2, 2, 4, 3, generator=generator)
    actions = torch.randint(4, (2, 4), generator=generator).float()
    rewards, ended = torch.rand(2, 4, generator=generator), torch.zeros(2, 4)
    ended[0, 1] = 1
    losses = agents.learn(Transitions(x, actions, rewards, ended, next_x), agents.values(next_x))
    loss = 0.0
    for row in range(4):
        later = 0.0 if row == 1 else 0.9 * float(net(next_x[0, row]).max().detach())
        value = float(net(x[0, row])[int(actions[0, row])].detach())
        loss += 0.5 * (value - float(rewards[0, row]) - later) ** 2 / 4
    constant = 0.5 * float(np.log(2 * np.pi))  # of the density
    assert float(losses[0]) == pytest.approx(loss + constant, abs=1e-5)


def test_an_agent_is_the_same_in_company() -> None:
    def lived(which: slice) -> tuple[np.ndarray[Any, Any], torch.Tensor]:
        seeds = [3, 4, 5][which]
        nets = [[q_network("dropout", (3, 8, 8, 4), seed=seed)] for seed in seeds]
        explore = Exploration(2, Constant(0.3))
        agents = QLearners(nets, 4, explore, QLearningSettings(start=5, batch_size=4), seeds)
        actions = []
        for tick in range(30):
            x = np.random.default_rng(tick).random((3, 3)).astype(np.float32)[which]
            actions.append(agents.act(x))
            agents.observe(x[:, 0].astype(float), x[:, 1] > 0.8, x[:, ::-1].copy())
        agents.write()
        return np.array(actions), nets[-1][0][0].weight.detach().clone()

    together, weight = lived(slice(0, 3))
    alone, own = lived(slice(2, 3))
    np.testing.assert_array_equal(together[:, 2:], alone)
    torch.testing.assert_close(weight, own, rtol=1e-5, atol=1e-7)
    other = q_network("dropout", (3, 8, 8, 4), seed=5)
    assert not torch.equal(own, other[0].weight.detach())  # it has learned


def test_no_global_random_number_is_drawn() -> None:
    agents = agents_of()
    torch.manual_seed(0)
    np.random.seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    for _ in range(8):
        agents.act(np.ones((2, 3), dtype=np.float32))
        agents.observe(np.ones(2), np.zeros(2, dtype=bool), np.ones((2, 3), dtype=np.float32))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()


def test_misuse() -> None:
    x = np.ones((2, 3), dtype=np.float32)
    nets = [[q_network("plain", (3, 8, 5), seed=s)] for s in (1, 2)]
    with pytest.raises(ValueError, match="expected one value for each of 4 actions, got outputs"):
        QLearners(nets, 4, Exploration(), QLearningSettings(), seeds=[1, 2]).act(x)
    with pytest.raises(ValueError, match="seeds: expected 2"):
        QLearners(nets, 5, Exploration(), QLearningSettings(), seeds=[1])
    with pytest.raises(TypeError, match="seeds"):
        QLearners(nets, 5, Exploration(), QLearningSettings())  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="nets: expected a list of networks for each agent"):
        QLearners([nets[0], []], 5, Exploration(), QLearningSettings(), seeds=[1, 2])
    with pytest.raises(ValueError, match="kind: expected one of"):
        q_network("gaussian", (3, 8, 5), seed=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hold"):
        Exploration(0)
    agents = agents_of()
    with pytest.raises(RuntimeError, match="call act"):
        agents.observe(np.ones(2), np.zeros(2, dtype=bool), x)
    with pytest.raises(ValueError, match="a row for each of 2 agents"):
        agents.act(x[:1])
    agents.act(x)
    with pytest.raises(ValueError, match="rewards: expected finite numbers"):
        agents.observe(np.array([1.0, np.nan]), np.zeros(2, dtype=bool), x)
    with pytest.raises(ValueError, match="next_x: expected finite numbers"):
        agents.observe(np.ones(2), np.zeros(2, dtype=bool), x * np.nan)
    with pytest.raises(ValueError, match="next_x: expected finite numbers of shape"):
        agents.observe(np.ones(2), np.zeros(2, dtype=bool), x[:, :2])
    with pytest.raises(ValueError, match="ended: expected 2 truth values"):
        agents.observe(np.ones(2), np.zeros(2), x)  # type: ignore[arg-type]
    agents.observe(np.ones(2), np.zeros(2, dtype=bool), x)
    with pytest.raises(RuntimeError, match="call act"):  # a second time
        agents.observe(np.ones(2), np.zeros(2, dtype=bool), x)


@pytest.mark.parametrize("how", ["ended", "cut"])
def test_another_function_after_the_end_of_an_episode(how: str) -> None:
    agents = agents_of(explore=Exploration(None))
    x = np.ones((2, 3), dtype=np.float32)
    nowhere, first = np.zeros(2, dtype=np.bool_), np.array([True, False])
    ends = {"ended": nowhere, "cut": nowhere, how: first}
    before = believed(agents, x)
    agents.act(x)
    agents.observe(np.ones(2), ends["ended"], x, cut=ends["cut"])
    after = believed(agents, x)
    assert not torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])  # the other agent's episode goes on


@pytest.mark.parametrize(
    "wrong",
    [
        {"discount": 1.5}, {"discount": math.nan}, {"memory": 0}, {"start": -1}, {"every": 0},
        {"batch_size": 0}, {"start": 10, "memory": 10}, {"learning_rate": 0.0},
        {"precision": math.inf}, {"weight_decay": -1.0}, {"optimizer": "lion"},
    ],
)  # fmt: skip
def test_settings_that_teach_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: expected"):
        QLearningSettings(**wrong)


def test_rules_that_are_none() -> None:
    for share in (-0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match="share: expected a share from 0 to 1"):
            Constant(share)
        with pytest.raises(ValueError, match="least: expected a share from 0 to 1"):
            Annealed(least=share)
    with pytest.raises(ValueError, match="burn_in: expected"):
        Annealed(total=10, burn_in=10)
    with pytest.raises(ValueError, match="hold: expected"):
        Exploration(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="random_ticks: expected"):
        Exploration(random_ticks=-1)
    with pytest.raises(TypeError, match=r"try Constant\(0.1\)"):
        Exploration(epsilon=0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sizes: expected"):
        q_network("dropout", (), seed=0)


@pytest.mark.parametrize("kind", ["plain", "dropout", "concrete", "bernoulli", "prior"])
def test_networks_draw_no_global_random_number(kind: Any) -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    q_network(kind, (3, 8, 5), seed=1)
    assert torch.equal(torch.rand(1), expected)


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    agents = agents_of("plain", learning_rate=1e30)
    x = np.ones((2, 3), dtype=np.float32)

    def live() -> None:
        for _ in range(20):
            agents.act(x)
            agents.observe(np.ones(2), np.zeros(2, dtype=bool), x)

    with pytest.raises(FloatingPointError, match="smaller learning rate"):
        live()
