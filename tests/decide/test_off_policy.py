"""Estimates from logs of a world whose values can be enumerated.

Statistical comparisons are at 5.5 standard errors: a false alarm of 4e-8 each.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from dubio import decide
from dubio.decide import Estimate, Log
from dubio.likelihoods import Gaussian

FAR = 5.5
CONTEXTS = torch.eye(3)
SHARES = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
LOGGING = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]], dtype=torch.float64)
TARGET = torch.tensor([[0.1, 0.1, 0.8], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]], dtype=torch.float64)
CHANCES = torch.tensor([[0.1, 0.5, 0.9], [0.7, 0.2, 0.4], [0.3, 0.6, 0.8]], dtype=torch.float64)
VALUE = float((SHARES[:, None] * TARGET * CHANCES).sum())
WRONG = torch.full((3, 3), 1 / 3, dtype=torch.float64)  # not what the log was made with
GUESS = torch.tensor([[0.0, 1.0, 0.5], [0.2, 0.2, 0.2], [1.0, 0.0, 0.0]], dtype=torch.float64)

Estimator = Callable[[Log, Any], Estimate]


def policy(contexts: Tensor) -> Tensor:
    return TARGET[contexts.argmax(1)]


def guess(contexts: Tensor) -> Tensor:
    return GUESS[contexts.argmax(1)]


def doubly_robust(log: Log, policy: Any) -> Estimate:
    return decide.doubly_robust(log, policy, guess)


def sampled(rows: int, seed: int, logged: Tensor = LOGGING, *, full: bool = True) -> Log:
    draw = torch.Generator().manual_seed(seed)
    kinds = torch.multinomial(SHARES, rows, replacement=True, generator=draw)
    actions = torch.multinomial(LOGGING[kinds], 1, generator=draw).squeeze(1)
    rewards = torch.bernoulli(CHANCES[kinds, actions], generator=draw)
    known = logged[kinds] if full else logged[kinds, actions]
    return Log(CONTEXTS[kinds], actions, rewards, known)


def expectation(estimate: Estimator, logged: Tensor) -> float:
    """Of an estimate from one row, over all rows that there can be."""
    total = 0.0
    for kind, action, reward in itertools.product(range(3), range(3), (0.0, 1.0)):
        chance = CHANCES[kind, action] if reward else 1 - CHANCES[kind, action]
        weight = SHARES[kind] * LOGGING[kind, action] * chance
        log = Log(CONTEXTS[[kind]], [action], [reward], logged[[kind]])
        total += float(weight) * estimate(log, policy).value
    return total


@pytest.mark.parametrize("estimate", [decide.ips, doubly_robust])
def test_unbiased(estimate: Estimator) -> None:
    assert expectation(estimate, LOGGING) == pytest.approx(VALUE, abs=1e-12)
    assert abs(expectation(estimate, WRONG) - VALUE) > 0.05


def test_doubly_robust_needs_no_right_propensities_if_rewards_are_right() -> None:
    def known(log: Log, policy: Any) -> Estimate:
        return decide.doubly_robust(log, policy, lambda x: CHANCES[x.argmax(1)])

    assert expectation(known, WRONG) == pytest.approx(VALUE, abs=1e-12)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("estimate", [decide.ips, decide.snips, doubly_robust])
def test_consistent(estimate: Estimator, full: bool) -> None:
    found = estimate(sampled(20_000, 1, full=full), policy)
    assert abs(found.value - VALUE) < FAR * found.standard_error
    assert found.standard_error < 0.02
    assert found.rows == 20_000


@pytest.mark.parametrize("estimate", [decide.ips, decide.snips, doubly_robust])
def test_wrong_propensities_are_far_off(estimate: Estimator) -> None:
    with pytest.warns(UserWarning, match=r"expected weights of mean 1, got .* wrong"):
        found = estimate(sampled(20_000, 1, WRONG), policy)
    assert abs(found.value - VALUE) > FAR * found.standard_error


def test_wrong_propensities_of_single_actions_are_noticed() -> None:
    with pytest.warns(UserWarning, match=r"expected weights of mean 1, got .* wrong"):
        decide.ips(sampled(20_000, 1, WRONG, full=False), policy)


@pytest.mark.parametrize("estimate", [decide.ips, decide.snips, doubly_robust])
def test_standard_errors(estimate: Estimator) -> None:
    found = [estimate(sampled(500, seed), policy) for seed in range(400)]
    spread = np.std([one.value for one in found], ddof=1)
    stated = math.sqrt(np.mean([one.standard_error**2 for one in found]))
    # the relative error of a standard deviation of 400 numbers is 1/√800, of others less
    assert abs(stated / spread - 1) < FAR / math.sqrt(800)


def test_by_hand() -> None:
    log = Log(torch.zeros(2, 1), [0, 1], [1.0, 3.0], [0.5, 0.25])
    odds = np.array([[0.5, 0.5], [0.5, 0.5]])  # weights 1 and 2
    ips = decide.ips(log, odds)
    assert ips.value == pytest.approx((1 * 1 + 2 * 3) / 2)
    assert ips.standard_error == pytest.approx(np.std([1, 6], ddof=1) / math.sqrt(2))
    assert ips.effective_sample_size == pytest.approx(9 / 5)
    snips = decide.snips(log, odds)
    assert snips.value == pytest.approx(7 / 3)
    terms = [1 * (1 - 7 / 3), 2 * (3 - 7 / 3)]
    assert snips.standard_error == pytest.approx(math.hypot(*terms) / 3)
    robust = decide.doubly_robust(log, odds, np.array([[1.0, 2.0], [0.0, 2.0]]))
    assert robust.value == pytest.approx(np.mean([1.5 + 1 * (1 - 1), 1.0 + 2 * (3 - 2)]))


def fixed_agent(**options: Any) -> decide.Bandit:
    """Takes the action with the largest weight for each kind, but for ε."""
    net = nn.Linear(3, 3, bias=False)
    net.weight.data = torch.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])
    return decide.Bandit(
        net, 3, likelihood=Gaussian(1.0), rule="epsilon", epsilon=0.3, steps=0, **options
    )


OF_AGENT = torch.tensor([[0.1, 0.1, 0.8], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]], dtype=torch.float64)
VALUE_OF_AGENT = float((SHARES[:, None] * OF_AGENT * CHANCES).sum())


def test_an_agent_is_a_policy() -> None:
    log = sampled(5_000, 3)
    agent = fixed_agent()
    torch.testing.assert_close(agent.probabilities(CONTEXTS), OF_AGENT)
    odds = agent.probabilities(log.contexts)
    assert decide.ips(log, agent) == decide.ips(log, odds)
    found = decide.doubly_robust(log, agent)  # with what the agent expects
    assert found == decide.doubly_robust(log, agent, agent.expected)
    assert abs(found.value - VALUE_OF_AGENT) < FAR * found.standard_error


def test_replay_of_a_log_that_is_not_uniform() -> None:
    agent = fixed_agent(keep_log=True)
    log = sampled(6_000, 4)
    found = decide.replay(agent, log)
    assert abs(found.value - VALUE_OF_AGENT) < FAR * found.standard_error
    # kept with probability c = 0.1, the least of the log, whatever the action
    assert abs(found.rows - 600) < FAR * math.sqrt(6_000 * 0.1 * 0.9)
    assert len(agent.pending) == 0
    assert agent.remembered == found.rows == len(agent.log)
    shares = torch.stack(
        [(agent.log.contexts.argmax(1) == kind).double().mean() for kind in range(3)]
    )
    errors = (SHARES * (1 - SHARES) / found.rows).sqrt()
    assert bool(((shares - SHARES).abs() < FAR * errors).all())


def test_replay_of_a_uniform_log_keeps_all_that_agree() -> None:
    kinds = torch.arange(30) % 3
    actions = torch.arange(30) % 2
    log = Log(CONTEXTS[kinds], actions, torch.ones(30), torch.full((30,), 0.5))
    agent, twin = fixed_agent(), fixed_agent()
    agree = [int(twin.choose(row[None]).action) for row in CONTEXTS[kinds]]
    found = decide.replay(agent, log)
    assert found.rows == int((torch.tensor(agree) == actions).sum())


def test_rare_actions_are_no_reason_to_warn() -> None:
    """The bound of the mean weight holds for few large weights; false alarm below 1e-6 a log."""
    odds = torch.tensor([[0.99, 0.01]], dtype=torch.float64)
    for seed in range(300):
        draw = torch.Generator().manual_seed(seed)
        actions = torch.multinomial(odds.expand(50, 2), 1, generator=draw).squeeze(1)
        log = Log(torch.zeros(50, 1), actions, torch.ones(50), odds.expand(50, 2))
        decide.ips(log, torch.full((50, 2), 0.5))


@pytest.mark.parametrize("columns", [2, 3])
def test_replay_warns_of_actions_that_the_log_could_not_take(columns: int) -> None:
    never = torch.tensor([[0.5, 0.5, 0.0]])[:, :columns].expand(60, -1)
    log = Log(CONTEXTS[torch.arange(60) % 3], [0, 1] * 30, torch.ones(60), never)
    with pytest.warns(UserWarning, match="agent: expected actions that the log could take"):
        decide.replay(fixed_agent(), log)


def test_replay_warns_of_wrong_probabilities() -> None:
    log = Log(CONTEXTS[torch.arange(90) % 3], [0] * 90, torch.ones(90), torch.ones(90))
    with pytest.warns(UserWarning, match="log: expected about 90 ± 0 of 90 events to be kept"):
        decide.replay(fixed_agent(), log)


def test_a_single_weight_has_no_standard_error() -> None:
    log = Log(torch.zeros(3, 1), [0, 1, 1], [1.0, 2.0, 3.0], [0.5] * 3)
    found = decide.snips(log, torch.tensor([[1.0, 0.0]]).expand(3, 2))
    assert math.isnan(found.standard_error)


def test_logs_are_copies() -> None:
    given = torch.ones(2, 1), torch.ones(2).long(), torch.ones(2).double(), torch.ones(2).double()
    log = Log(*given)
    for one in given:
        one.zero_()
    for one in (log.contexts, log.actions, log.rewards, log.probability):
        assert one.sum() == 2
    agent = fixed_agent(keep_log=True)
    agent.update(agent.choose(CONTEXTS).id, torch.ones(3))
    agent.log.rewards.zero_()
    assert agent.log.rewards.sum() == 3


def test_lacking_support_is_a_warning() -> None:
    never = torch.tensor([[0.5, 0.5, 0.0]]).double().expand(10, -1)
    log = Log(torch.zeros(10, 1), [0, 1] * 5, torch.ones(10), never)
    wanted = torch.tensor([[0.4, 0.4, 0.2]]).double().expand(10, -1)
    with pytest.warns(UserWarning, match=r"got others in 10 of 10 rows, with a share of 0.2"):
        found = decide.snips(log, wanted)
    assert found.value == pytest.approx(1.0)


class TestErrors:
    @pytest.mark.parametrize("bad", [0.0, -0.1, 1.5, math.nan])
    def test_propensities(self, bad: float) -> None:
        with pytest.raises(ValueError, match=r"probabilities: expected > 0 and <= 1.*in row 1"):
            Log(torch.zeros(2, 1), [0, 1], [1.0, 1.0], [0.5, bad])

    def test_sums(self) -> None:
        with pytest.raises(ValueError, match=r"probabilities: expected.*sum to 1.*in row 0"):
            Log(torch.zeros(1, 1), [0], [1.0], [[0.5, 0.6]])

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (([0.5], [1.0], [0.5]), "actions: expected 1 whole numbers"),
            (([-1], [1.0], [0.5]), "actions: expected numbers from 0, got -1"),
            (([0], [math.nan], [0.5]), "rewards: expected finite numbers, got 1"),
            (([0], [1.0, 2.0], [0.5]), r"rewards: expected 1 numbers, got shape \(2,\)"),
            (([0], [1.0], [0.5, 0.5]), r"probabilities: expected shape \(1,\)"),
            (([True], [1.0], [0.5]), "actions: expected 1 whole numbers, got torch.bool"),
            (([1], [1.0], [0.5], [True, True]), r"allowed: expected True or False of shape \(1,"),
            (([1], [1.0], [0.5], [[1, 1]]), "allowed: expected True or False"),
            (([1], [1.0], [0.5], [[True, False]]), "allowed: .* got action 1 in row 0"),
            (([2], [1.0], [[0.5, 0.5]]), "probabilities: expected shape .* at least 3 actions"),
        ],
    )
    def test_columns(self, values: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Log(torch.zeros(1, 1), *values)

    def test_policies(self) -> None:
        log = sampled(5, 0)
        with pytest.raises(ValueError, match=r"policy: expected shape \(5, actions\)"):
            decide.ips(log, torch.ones(5))
        with pytest.raises(ValueError, match=r"policy: expected numbers >= 0 that sum to 1"):
            decide.ips(log, torch.ones(5, 3))
        with pytest.raises(TypeError, match=r"expected: expected mean rewards, got None"):
            decide.doubly_robust(log, policy)
        with pytest.raises(ValueError, match=r"expected: expected finite mean rewards of shape"):
            decide.doubly_robust(log, policy, torch.zeros(5, 2))
        with pytest.raises(ValueError, match="log: expected at least one choice"):
            decide.ips(log[:0], policy)
        with pytest.raises(ValueError, match="log: expected at least one choice"):
            decide.replay(fixed_agent(), log[:0])
        with pytest.raises(TypeError, match="policy: expected real numbers"):
            decide.ips(log, torch.full((5, 3), 1 / 3) + 1j)
        with pytest.raises(TypeError, match="expected: expected real numbers"):
            decide.doubly_robust(log, policy, torch.zeros(5, 3) + 1j)

    def test_a_policy_of_which_nothing_is_known(self) -> None:
        log = Log(torch.zeros(2, 1), [0, 0], [1.0, 1.0], [0.5, 0.5])
        with (
            pytest.warns(UserWarning, match="mean 1, got 0"),
            pytest.raises(ValueError, match="policy: expected one that takes some"),
        ):
            decide.snips(log, torch.tensor([[0.0, 1.0]]).expand(2, 2))

    def test_nothing_to_replay(self) -> None:
        log = Log(CONTEXTS[[0]], [0], [1.0], [0.5])
        with pytest.raises(ValueError, match="log: expected events that can be kept"):
            decide.replay(fixed_agent(seed=1), log)


class TestFrames:
    def test_there_and_back(self) -> None:
        log = sampled(20, 0)
        frame = log.to_frame()
        assert list(frame.columns) == [
            "context_0", "context_1", "context_2", "action", "reward", "probability",
            "probability_0", "probability_1", "probability_2",
        ]  # fmt: skip
        again = Log.from_frame(frame)
        for name in ("contexts", "actions", "rewards", "probability", "probabilities"):
            assert torch.equal(getattr(log, name), getattr(again, name))

    def test_names(self) -> None:
        frame = pd.DataFrame(
            {"age": [30.0, 40.0], "banner": [1, 0], "click": [True, False], "p": [0.5, 0.25]}
        )
        log = Log.from_frame(frame, ["age"], action="banner", reward="click", probability="p")
        assert log.contexts.tolist() == [[30.0], [40.0]]
        assert log.actions.tolist() == [1, 0]
        assert log.rewards.tolist() == [1.0, 0.0]
        assert log.probability.tolist() == [0.5, 0.25]
        assert log.probabilities is None
        assert Log.from_frame({name: frame[name].tolist() for name in frame}, ["age"], "banner",
                              "click", "p").rewards.tolist() == [1.0, 0.0]  # fmt: skip
        assert list(log.to_frame(["age"]).columns) == ["age", "action", "reward", "probability"]

    def test_columns_in_another_order(self) -> None:
        log = Log(torch.arange(24.0).view(2, 12), [0, 1], [1.0, 2.0], [0.5, 0.5])
        frame = log.to_frame()
        again = Log.from_frame(frame[sorted(frame.columns)])  # context_10 before context_2
        assert torch.equal(again.contexts, log.contexts)

    @pytest.mark.parametrize(
        "names", [["action", "b", "c"], ["b", "b", "c"], ["probability_0", "b", "c"]]
    )
    def test_names_that_are_taken(self, names: list[str]) -> None:
        with pytest.raises(ValueError, match="names: expected names that no other column has"):
            sampled(3, 0).to_frame(names)

    def test_missing_columns(self) -> None:
        with pytest.raises(KeyError, match="contexts: expected names of columns, got none"):
            Log.from_frame({"action": [0]})
        with pytest.raises(KeyError, match=r"reward: expected a column of this name"):
            Log.from_frame({"context_0": [0.0], "action": [0]})

    def test_what_an_agent_has_logged(self) -> None:
        agent = fixed_agent(keep_log=True)
        allowed = torch.tensor([[True, True, False]]).expand(3, 3)
        first, second = agent.choose(CONTEXTS, allowed), agent.choose(CONTEXTS)
        agent.update(second.id, torch.ones(3))
        agent.update(first.id[:1], [0.5])
        log = Log.from_frame(agent.log.to_frame())
        assert torch.equal(log.contexts, torch.cat([CONTEXTS, CONTEXTS[:1]]))
        assert torch.equal(log.actions, torch.cat([second.action, first.action[:1]]))
        assert log.rewards.tolist() == [1, 1, 1, 0.5]
        assert torch.equal(log.probability, torch.cat([second.probability, first.probability[:1]]))
        assert log.allowed is not None
        assert log.allowed.tolist() == [[True] * 3] * 3 + [[True, True, False]]


def test_weights_that_are_huge_do_not_overflow() -> None:
    rare = torch.full((4,), 1e-300, dtype=torch.float64)
    log = decide.Log(torch.zeros(4, 2), torch.zeros(4, dtype=torch.long), torch.ones(4), rare)
    with pytest.warns(UserWarning, match="mean"):
        found = decide.ips(log, torch.full((4, 2), 0.5))
    assert found.effective_sample_size == pytest.approx(4)


def test_contexts_of_a_log_are_finite() -> None:
    wrong = torch.tensor([[0.0, float("nan")]])
    with pytest.raises(ValueError, match="contexts: expected finite numbers"):
        decide.Log(wrong, torch.zeros(1, dtype=torch.long), torch.ones(1), torch.ones(1))
