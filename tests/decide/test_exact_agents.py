"""Linear agents and NeuralLinear: posteriors by hand, training as without an exact layer.

A share of independent events is compared with its probability at 5.5 standard errors: a false alarm
of 4e-8 for each of six comparisons.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from bandit_runs import ACTIONS, WIDTH
from beta_arms import thompson_probabilities
from dubio import decide
from dubio.decide import ExactLinear
from dubio.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian, LearnedGaussian

FAR = 5.5
HIDDEN = 5


def rows(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return (
        torch.randn(count, WIDTH, generator=draw),
        torch.randint(ACTIONS, (count,), generator=draw),
        torch.randn(count, generator=draw),
    )


def linear(**options: Any) -> tuple[decide.Bandit, ExactLinear]:
    layer = ExactLinear(WIDTH, ACTIONS)
    return decide.Bandit(layer, ACTIONS, likelihood=Gaussian(1.0), **options), layer


def neural(**options: Any) -> tuple[decide.Bandit, nn.Sequential]:
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.Tanh(), ExactLinear(HIDDEN, ACTIONS))
    options = {"steps": 3, "batch_size": 4, "learning_rate": 0.05, "seed": 7, **options}
    return decide.Bandit(net, ACTIONS, likelihood=Gaussian(1.0), **options), net


def check_posterior(found: ExactLinear, h: Tensor, *others: Tensor) -> None:
    expected = ExactLinear(found.linear.in_features, found.linear.out_features)
    expected.condition(h.detach(), *others)
    for one, other in zip(found.buffers(), expected.buffers(), strict=True):
        torch.testing.assert_close(one, other)


class TestLinear:
    @pytest.mark.parametrize("sizes", [[9], [1] * 9, [2, 4, 3]])
    def test_updates_in_parts_are_one(self, sizes: list[int]) -> None:
        agent, layer = linear(steps=2)
        weights = [p.clone() for p in layer.parameters()]
        parts = zip(*(column.split(sizes) for column in rows(9)), strict=True)
        for part in parts:
            agent.update(*part)
        check_posterior(layer, *rows(9))
        assert all(map(torch.equal, weights, layer.parameters()))  # there is nothing to train
        assert agent.interactions == len(sizes)

    def test_only_what_is_remembered_counts(self) -> None:
        agent, layer = linear(memory=6)
        for part in zip(*(column.split(4) for column in rows(16)), strict=True):
            agent.update(*part)
        check_posterior(layer, *(column[-6:] for column in rows(16)))

    def test_weights_count(self) -> None:
        agent, layer = linear()
        weight = torch.tensor([0.0, 2.0, 0.5, 1.0])
        agent.update(*rows(4), weight)
        check_posterior(layer, *rows(4), weight)

    def test_steps_of_zero_only_remember(self) -> None:
        agent, layer = linear()
        agent.update(*rows(4), steps=0)
        check_posterior(layer, *(column[:0] for column in rows(4)))
        agent.train(1)
        check_posterior(layer, *rows(4))

    @pytest.mark.parametrize("updates", [0, 20])
    def test_choices_are_those_of_thompson_sampling(self, updates: int) -> None:
        agent, layer = linear()
        if updates:
            agent.update(*rows(updates))
        context = torch.tensor([[0.7, -1.2, 0.4]])
        h = torch.cat([context, torch.ones(1, 1)], 1).double()[0]
        laws = []
        for action in range(ACTIONS):
            a, b = float(layer.shape[action]), float(layer.rate[action])
            scale = math.sqrt(b / a) * float((h @ layer.root[action].double()).norm())
            laws.append(stats.t(2 * a, float(h @ layer.mean[action].double()), scale))
        exact, draws = thompson_probabilities(laws), 20_000
        shares = agent.probabilities(context, draws=draws)[0].numpy()
        assert (abs(shares - exact) <= FAR * np.sqrt(exact * (1 - exact) / draws)).all()

    def test_pairs_of_context_and_action_have_one_regression(self) -> None:
        layer = ExactLinear(WIDTH + ACTIONS, 1)
        agent = decide.Bandit(layer, ACTIONS, likelihood=Gaussian(1.0), action_features="one-hot")
        contexts, actions, rewards = rows(7)
        agent.update(contexts, actions, rewards)
        pairs = torch.cat([contexts, torch.eye(ACTIONS)[actions]], 1)
        check_posterior(layer, pairs, torch.zeros(7, dtype=torch.int64), rewards)
        assert agent.choose(contexts).probabilities.shape == (7, ACTIONS)


class TestNeural:
    def test_the_trunk_learns_as_with_a_plain_layer(self) -> None:
        agent, net = neural()
        copied = neural()[1]
        plain = nn.Sequential(*copied[:2], copied[2].linear)
        other = decide.Bandit(
            plain, ACTIONS, likelihood=Gaussian(1.0), rule="greedy", steps=3, batch_size=4,
            learning_rate=0.05, seed=7,
        )  # fmt: skip
        start = copied[0].weight.clone()
        for seed in range(4):
            agent.update(*rows(3, seed))
            other.update(*rows(3, seed))
        for one, another in zip(net.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(one, another)
        assert not torch.equal(net[0].weight, start)

    def test_the_layer_is_conditioned_on_features_as_they_are_now(self) -> None:
        agent, net = neural()
        for part in zip(*(column.split(3) for column in rows(12)), strict=True):
            agent.update(*part)
            agent.choose(part[0])
        contexts, *others = rows(12)
        check_posterior(net[2], net[:2](contexts), *others)
        mean = net.eval()(contexts)
        torch.testing.assert_close(agent.expected(contexts, 5000).float(), mean, atol=0.1, rtol=0)

    def test_many_rows_go_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dubio.decide.last_layer._ROWS", 5)
        agent, net = neural()
        agent.update(*rows(12))
        contexts, *others = rows(12)
        check_posterior(net[2], net[:2](contexts), *others)

    def test_every_third_update(self) -> None:
        agent, net = neural(condition_every=3)
        for update in range(1, 7):
            before = net[2].mean.clone()
            agent.update(*rows(3, update))
            assert torch.equal(net[2].mean, before) == (update % 3 != 0)
        before = net[2].mean.clone()
        agent.train(1)
        assert not torch.equal(net[2].mean, before)

    def test_dropout_of_the_trunk_is_off_while_it_is_conditioned(self) -> None:
        torch.manual_seed(0)
        trunk = nn.Linear(WIDTH, HIDDEN), nn.Dropout(0.5)
        net = nn.Sequential(*trunk, ExactLinear(HIDDEN, ACTIONS))
        agent = decide.Bandit(net, ACTIONS, likelihood=LearnedGaussian())
        contexts, *others = rows(6)
        agent.update(contexts, *others)
        check_posterior(net[2], net[0](contexts), *others)
        assert net.training
        assert not net[2]._forward_hooks

    def test_members_of_an_ensemble(self) -> None:
        members = [neural()[1], nn.Linear(WIDTH, ACTIONS), ExactLinear(WIDTH, ACTIONS)]
        agent = decide.Bandit(members, ACTIONS, likelihood=Gaussian(1.0), functions=9)
        contexts, *others = rows(6)
        agent.update(contexts, *others)
        check_posterior(members[0][2], members[0][:2](contexts), *others)  # type: ignore[index]
        check_posterior(members[2], contexts, *others)  # type: ignore[arg-type]
        assert agent.choose(contexts).probabilities.shape == (6, ACTIONS)


class TestMistakes:
    @pytest.mark.parametrize(
        ("net", "likelihood", "message"),
        [
            (lambda: ExactLinear(WIDTH, 2), Gaussian(1.0), "ExactLinear with 3 actions, got 2"),
            (lambda: ExactLinear(WIDTH, ACTIONS), Bernoulli(), "whose mean is the output"),
            (
                lambda: ExactLinear(WIDTH, ACTIONS),
                HeteroscedasticGaussian(),
                "whose mean is the output",
            ),
            (
                lambda: nn.Sequential(ExactLinear(WIDTH, WIDTH), ExactLinear(WIDTH, ACTIONS)),
                Gaussian(1.0),
                "expected one ExactLinear, the last layer, got 2",
            ),
        ],
    )
    def test_at_once(self, net: Any, likelihood: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            decide.Bandit(net(), ACTIONS, likelihood=likelihood)

    def test_another_layer_behind_it(self) -> None:
        net = nn.Sequential(ExactLinear(WIDTH, ACTIONS), nn.Softplus())
        agent = decide.Bandit(net, ACTIONS, likelihood=Gaussian(1.0))
        with pytest.raises(ValueError, match="expected ExactLinear as the last layer"):
            agent.update(*rows(3))
        assert not net[0]._forward_hooks

    def test_how_often(self) -> None:
        with pytest.raises(ValueError, match="condition_every: expected a whole number >= 1"):
            linear(condition_every=0)
