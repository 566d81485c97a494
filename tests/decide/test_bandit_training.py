"""Training against naive loops: one optimiser, the last rows, rewards whenever they come."""

from collections import deque
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dubio
from bandit_runs import ACTIONS, KINDS, WIDTH, context, halved, made, of_pairs, result, run
from dubio import decide
from dubio.decide.experience import Experience
from dubio.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian
from dubio.likelihoods.reward import RewardOfAction
from dubio.noise.numbers import mix

SEED = 9


def events(rows: list[int]) -> list[tuple[Tensor, Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(count, WIDTH, generator=draw),
            torch.randint(ACTIONS, (count,), generator=draw),
            torch.randn(count, generator=draw),
        )
        for count in rows
    ]


class Naive:
    """Remembers in a deque, and trains by a loss that takes joined inputs and rewards."""

    def __init__(self, loss: Any, parameters: Any, memory: int, batch: int) -> None:
        self.generator = torch.Generator().manual_seed(mix(SEED, 1) >> 1)
        self.rows: deque[tuple[Tensor, int, float]] = deque(maxlen=memory)
        self.next = 0
        self.noisy = loss is None
        self.loss, self.batch = loss, batch
        self.optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)

    def update(self, contexts: Tensor, actions: Tensor, rewards: Tensor, steps: int) -> None:
        for row in zip(contexts, actions.tolist(), rewards.tolist(), strict=True):
            self.rows.append(row)
            self.next += 1
        # the ring's places: the newest of a full memory stands where the oldest was
        memory = self.rows.maxlen or 0
        first = self.next - len(self.rows)
        ring: list[Any] = [None] * len(self.rows)
        for number, row in enumerate(self.rows):
            ring[(first + number) % memory] = row
        places = torch.randint(len(ring), (steps, 1, self.batch), generator=self.generator)
        for step in range(steps):
            chosen = [ring[place] for place in places[step, 0].tolist()]
            self.optimizer.zero_grad()
            if not self.noisy:  # the noise of a step has a seed, also if there is none
                torch.randint(2**63 - 1, (), generator=self.generator)
            self.loss(chosen, len(ring)).backward()
            self.optimizer.step()


def test_a_plain_network_by_hand() -> None:
    torch.manual_seed(0)
    net, twin = nn.Linear(WIDTH, ACTIONS), nn.Linear(WIDTH, ACTIONS)
    twin.load_state_dict(net.state_dict())
    agent = decide.Bandit(
        net, ACTIONS, likelihood=Gaussian(4.0), rule="greedy", memory=7, batch_size=5, steps=3,
        learning_rate=0.01, schedule=halved, seed=SEED,
    )  # fmt: skip

    def loss(chosen: list[Any], count: int) -> Tensor:
        terms = [2.0 * (reward - twin(x)[action]) ** 2 for x, action, reward in chosen]
        return torch.stack(terms).mean()

    naive = Naive(loss, twin.parameters(), 7, 5)
    for number, event in enumerate(events([1, 3, 2, 4, 1, 9, 1, 2])):
        agent.update(*event)
        naive.optimizer.param_groups[0]["lr"] = 0.01 * halved(number)
        naive.update(*event, steps=3)
    torch.testing.assert_close(net.weight, twin.weight)
    torch.testing.assert_close(net.bias, twin.bias)
    assert agent.remembered == 7
    assert agent.interactions == 8


def test_bayes_by_backprop_follows_the_number_of_rows() -> None:
    torch.manual_seed(0)
    net, twin = of_pairs(), of_pairs()
    twin.load_state_dict(net.state_dict())
    agent = decide.Bandit(
        net, ACTIONS, likelihood=Gaussian(4.0), action_features="one-hot", memory=7,
        batch_size=5, steps=3, learning_rate=0.01, seed=SEED,
    )  # fmt: skip
    naive = Naive(None, twin.parameters(), 7, 5)
    elbo = dubio.ELBO(twin, Gaussian(4.0), 1, generator=naive.generator)

    def loss(chosen: list[Any], count: int) -> Tensor:
        elbo.num_data = count
        pairs = [torch.cat([x, torch.eye(ACTIONS)[action]]) for x, action, _ in chosen]
        loss: Tensor = elbo(torch.stack(pairs), torch.tensor([[r] for _, _, r in chosen]))
        return loss

    naive.loss = loss
    for event in events([1, 3, 2, 4]):
        agent.update(*event)
        naive.update(*event, steps=3)
    for one, other in zip(net.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bits(kind: str) -> None:
    state = torch.get_rng_state()
    first = result(run(made(kind, keep_log=True), 16))
    assert result(run(made(kind, keep_log=True), 16)) == first
    assert result(run(made(kind, keep_log=True, seed=4), 16))["weights"] != first["weights"]
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", KINDS)
def test_questions_change_nothing(kind: str) -> None:
    agent, twin = run(made(kind), 8), run(made(kind), 8)
    modes = [module.training for net in agent._parts["net"] for module in net.modules()]
    assert torch.equal(agent.expected(context(2)), agent.expected(context(2)))
    assert torch.equal(agent.probabilities(context(2)), agent.probabilities(context(2)))
    agent.probabilities(context(2), draws=50)
    assert [m.training for net in agent._parts["net"] for m in net.modules()] == modes
    one, other = run(agent, 16).choose(context(2)), run(twin, 16).choose(context(2))
    assert torch.equal(one.probabilities, other.probabilities)
    assert torch.equal(one.action, other.action)


def test_late_batched_and_partial_rewards() -> None:
    def answered(*parts: list[int]) -> decide.Bandit:
        agent = made("plain", memory=100)
        choices = agent.choose(context(2)), agent.choose(context(2))
        assert torch.cat([choice.id for choice in choices]).tolist() == list(range(6))
        for part in parts:
            agent.update(part, [float(one) for one in part])
        return agent

    agent = answered([4, 1], [5])
    assert agent.pending.tolist() == [0, 2, 3]
    assert agent.remembered == 3
    taken = agent._learner.experience.take(torch.arange(3))
    rows = torch.cat([context(2), context(2)])[[4, 1, 5]]
    assert torch.equal(taken[0], rows)
    assert taken[1][:, 1].tolist() == [4.0, 1.0, 5.0]
    agent.forget([0, 2])
    agent.update([3], [0.0])
    assert agent.pending.tolist() == []
    # one call for all, or the same rows as the second form
    whole, other = answered([0, 1, 2, 3, 4, 5]), made("plain", memory=100)
    twin = made("plain")
    choices = twin.choose(context(2)), twin.choose(context(2))
    other.update(
        torch.cat([context(2), context(2)]),
        torch.cat([choice.action for choice in choices]),
        torch.arange(6.0),
    )
    assert torch.equal(whole.expected(context(2)), other.expected(context(2)))
    agent.update([], [])
    assert agent.interactions == 3


def test_the_ring_against_a_deque() -> None:
    memory, kept = Experience(5), deque[float](maxlen=5)
    number = 0.0
    for count in (1, 3, 2, 5, 7, 4):
        rows = torch.arange(number, number + count)
        number += count
        memory.add(rows[:, None], rows[:, None].expand(-1, 3))
        kept.extend(rows.tolist())
        assert len(memory) == len(kept)
        x, y = memory.take(torch.arange(len(memory)))
        assert sorted(x[:, 0].tolist()) == sorted(kept)
        assert torch.equal(x.expand(-1, 3), y)


def test_remembering_without_training() -> None:
    agent = made("plain")
    before = agent.expected(context(2))
    agent.update(*events([4])[0], steps=0)
    assert agent.remembered == 4
    assert agent.interactions == 0
    assert torch.equal(agent.expected(context(2)), before)
    agent.train(1)
    assert not torch.equal(agent.expected(context(2)), before)


def test_another_optimizer() -> None:
    agent = made("plain", optimizer=partial(torch.optim.SGD, lr=0.0))
    before = agent.expected(context(2))
    agent.update(*events([4])[0])
    assert torch.equal(agent.expected(context(2)), before)


def test_modes_of_torch_around_it() -> None:
    one, other = made("dropout"), made("dropout")
    with torch.inference_mode():
        run(one, 8)
    run(other, 8)
    run(one, 12)
    assert torch.equal(one.expected(context(2)), run(other, 12).expected(context(2)))


def test_an_agent_learns() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    agent = decide.Bandit(net, 2, likelihood=Bernoulli(), steps=4, learning_rate=0.01)
    draw = torch.Generator().manual_seed(0)
    right = []
    for _ in range(60):
        contexts = torch.randn(8, 2, generator=draw)
        choice = agent.choose(contexts)
        best = (contexts[:, 0] > 0).long()
        agent.update(choice.id, choice.action == best)
        right.append((choice.action == best).double().mean())
    assert torch.stack(right[-20:]).mean() > 0.9


class TestRewardOfAction:
    outputs = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([[0.0, 1.5, 1.0], [2.0, -1.0, 0.5], [1.0, 0.0, 2.0], [2.0, 3.0, 0.0]])

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("likelihood", [Gaussian(2.0), HeteroscedasticGaussian()])
    def test_against_one_by_one(self, likelihood: Any, weighted: bool) -> None:
        wide = isinstance(likelihood, HeteroscedasticGaussian)
        outputs = self.outputs if wide else self.outputs[..., :3]
        found = RewardOfAction(likelihood, 3)
        found.weighted = weighted
        logs = found.log_prob(outputs, self.rows)
        for draw in range(2):
            for row, (action, reward, weight) in enumerate(self.rows.tolist()):
                places = [int(action), int(action) + 3] if wide else [int(action)]
                alone = likelihood.log_prob(
                    outputs[draw : draw + 1, row : row + 1, places], torch.tensor([[reward]])
                )
                expected = alone[0, 0] * (weight if weighted else 1)
                torch.testing.assert_close(logs[draw, row], expected)
            torch.testing.assert_close(found.losses(outputs[draw], self.rows), -logs[draw])

    def test_of_pairs(self) -> None:
        found = RewardOfAction(Gaussian(2.0), None)
        expected = Gaussian(2.0).losses(self.outputs[0, :, :1], self.rows[:, 1:2])
        torch.testing.assert_close(found.losses(self.outputs[0, :, :1], self.rows), expected)
        torch.testing.assert_close(found.losses(self.outputs[0, :, 0], self.rows), expected)


def test_weights_count() -> None:
    def trained(weight: list[float]) -> Tensor:
        agent = made("plain", memory=2, optimizer=partial(torch.optim.SGD, lr=0.1))
        x = torch.ones(2, WIDTH)
        agent.update(x, [0, 1], [5.0, 5.0], weight)
        return agent.expected(x)[0]

    assert bool((trained([1.0, 0.0]) != trained([1.0, 1.0])).tolist()[1])
    before = made("plain").expected(torch.ones(1, WIDTH))[0]
    assert trained([1.0, 0.0])[1] == before[1]  # a weight of zero teaches nothing


class TestPriorFunction:
    def net(self) -> nn.Module:
        return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))

    def test_the_sum_of_two(self) -> None:
        x = torch.randn(5, 2)
        net = self.net()
        both = decide.PriorFunction(net, 3.0, seed=1)
        torch.testing.assert_close(both(x), net(x) + 3 * both.prior(x))
        assert not torch.equal(both.prior(x), net(x))
        same, other = (decide.PriorFunction(net, 3.0, seed=seed) for seed in (1, 2))
        assert torch.equal(same(x), both(x))
        assert not torch.equal(other(x), both(x))

    def test_only_the_network_learns(self) -> None:
        both = decide.PriorFunction(self.net())
        assert [n for n, p in both.named_parameters() if p.requires_grad] == [
            "net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias",
        ]  # fmt: skip
        both.train()
        assert both.net.training
        assert not both.prior.training

    def test_the_global_generator_stays(self) -> None:
        state = torch.get_rng_state()
        decide.PriorFunction(self.net_of_ones(), seed=0)
        assert torch.equal(torch.get_rng_state(), state)

    def test_members_without_seeds_have_priors_of_their_own(self) -> None:
        net, x = self.net(), torch.randn(5, 2)
        one, other = (decide.PriorFunction(net) for _ in range(2))
        assert not torch.equal(one(x), other(x))
        torch.manual_seed(4)
        first = decide.PriorFunction(net)(x)
        torch.manual_seed(4)
        assert torch.equal(decide.PriorFunction(net)(x), first)

    @staticmethod
    def net_of_ones() -> nn.Module:
        net = nn.Linear.__new__(nn.Linear)
        with torch.random.fork_rng(devices=[]):
            net.__init__(2, 1)  # type: ignore[misc]
        return net

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match=r"prior: expected a network without noise.*in 1;"):
            decide.PriorFunction(nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.5)))
        with pytest.raises(ValueError, match="scale: expected a number > 0, got 0"):
            decide.PriorFunction(self.net(), 0)

        class Own(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2))

        with pytest.raises(ValueError, match=r"with reset_parameters\(\), got the network \(Own\)"):
            decide.PriorFunction(Own())
