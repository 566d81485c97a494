"""Many agents at once: each is what it would be alone, and what a naive loop makes of it."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

import dubio
from dubio import decide, likelihoods
from dubio.likelihoods.reward import RewardOfAction
from dubio.noise.numbers import mix

MEANS = torch.tensor([[1.0, 0.0, 0.0, -1.0], [0.0, 1.0, -1.0, 0.0]])
QUICK = {"likelihood": likelihoods.Gaussian(4.0), "learning_rate": 1e-2}


def network(drop=0.1, outputs=2, inputs=4):
    return nn.Sequential(nn.Linear(inputs, 20), nn.ReLU(), nn.Dropout(drop), nn.Linear(20, outputs))


def some(count, **options):
    torch.manual_seed(1)
    return [network(**options) for _ in range(count)]


def lived(agents, rounds=20, rows=3):
    """Actions of all agents in a world with linear rewards."""
    generator, found = torch.Generator().manual_seed(5), []
    for _ in range(rounds):
        x = torch.randn(rows, 4, generator=generator)
        actions = agents.choose(x).action
        agents.update(x, actions, (x @ MEANS.T).expand(len(agents), -1, -1).gather(
            2, actions[..., None]).squeeze(2))  # fmt: skip
        found.append(actions)
    return torch.cat(found, 1)


@pytest.mark.parametrize("features", [None, "one-hot"])
def test_an_agent_is_the_same_whoever_is_beside_it(features):
    shape = {} if features is None else {"outputs": 1, "inputs": 6}
    nets = some(3, **shape)
    options = {**QUICK, "steps": 3, "functions": 8, "average": 2, "action_features": features}
    alone = decide.BanditPopulation([copy.deepcopy(nets[1])], 2, seeds=[7], **options)
    beside = decide.BanditPopulation(nets, 2, seeds=[3, 7, 9], **options)
    ours, theirs = lived(alone), lived(beside)
    assert torch.equal(ours[0], theirs[1])
    assert not torch.equal(theirs[0], theirs[2])
    x = torch.randn(5, 4)
    torch.testing.assert_close(alone.expected(x)[0], beside.expected(x)[1])


@pytest.mark.parametrize("features", [None, "one-hot"])
def test_agents_may_meet_contexts_of_their_own(features):
    shape = {} if features is None else {"outputs": 1, "inputs": 6}
    options = {**QUICK, "steps": 3, "functions": 6, "action_features": features}

    def ensembles():
        torch.manual_seed(2)
        return [
            [decide.PriorFunction(network(0.0, **shape), 2.0) for _ in range(3)] for _ in range(2)
        ]

    own = decide.BanditPopulation(ensembles(), 2, seeds=[3, 7], own_contexts=True, **options)
    alone = [
        decide.BanditPopulation([nets], 2, seeds=[seed], **options)
        for nets, seed in zip(ensembles(), (3, 7), strict=True)
    ]
    stream = torch.Generator().manual_seed(0)
    for _ in range(15):
        x = torch.randn(2, 3, 4, generator=stream)
        actions = own.choose(x).action
        rewards = (x @ MEANS.T).gather(2, actions[..., None]).squeeze(2)
        own.update(x, actions, rewards)
        for agent, one in enumerate(alone):
            assert torch.equal(one.choose(x[agent]).action[0], actions[agent])
            one.update(x[agent], actions[agent : agent + 1], rewards[agent : agent + 1])
    for agent, one in enumerate(alone):
        torch.testing.assert_close(own.expected(x)[agent], one.expected(x[agent])[0])
    with pytest.raises(ValueError, match=r"contexts: expected shape \(2, B, D\)"):
        own.choose(x[0])


def test_training_is_that_of_a_naive_loop():
    net = some(1, drop=0.0)[0]
    twin = copy.deepcopy(net)
    agents = decide.BanditPopulation(
        [net], 2, rule="greedy", steps=5, batch_size=16, memory=30, seeds=[4],
        schedule=lambda step: 0.5 ** (step // 3), **QUICK,
    )  # fmt: skip
    elbo = dubio.ELBO(twin, RewardOfAction(likelihoods.Gaussian(4.0), 2), 1)
    adam = torch.optim.Adam(elbo.parameters(), lr=1e-2)
    rows_of_steps = torch.Generator().manual_seed(mix(4, 1) >> 1)
    stream, memory = torch.Generator().manual_seed(0), []
    for round_ in range(9):
        x = torch.randn(5, 4, generator=stream)
        actions = torch.randint(2, (5,), generator=stream)
        rewards = (x @ MEANS.T).gather(1, actions[:, None]).squeeze(1)
        agents.update(x, actions[None], rewards[None])
        for row in zip(x, actions, rewards, strict=True):
            if len(memory) < 30:
                memory.append(row)
            else:
                memory[(5 * round_ + int((x == row[0]).all(1).nonzero()[0])) % 30] = row
        places = torch.randint(len(memory), (5, 1, 16), generator=rows_of_steps)
        for group in adam.param_groups:
            group["lr"] = 1e-2 * 0.5 ** (round_ // 3)
        elbo.num_data = len(memory)
        for own in places[:, 0].tolist():
            chosen = [memory[place] for place in own]
            y = torch.stack([torch.stack([a.float(), r, torch.ones(())]) for _, a, r in chosen])
            adam.zero_grad()
            elbo(torch.stack([x for x, _, _ in chosen]), y).backward()
            adam.step()
    agents.write()
    for ours, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_agents_learn_which_action_is_better():
    agents = decide.BanditPopulation(
        some(4), 2, rule=["thompson", "greedy", "epsilon", "upper"], steps=4, functions=8, **QUICK
    )
    lived(agents, rounds=120)
    x = torch.randn(500, 4, generator=torch.Generator().manual_seed(1))
    chosen = agents.expected(x).argmax(-1)
    assert ((chosen == (x @ MEANS.T).argmax(-1)).double().mean(1) > 0.9).all()


def test_rules_and_their_numbers_may_differ():
    agents = decide.BanditPopulation(
        some(3), 2, rule=["epsilon", "epsilon", "thompson"], epsilon=[0.2, 0.5, 0.0],
        floor=[0.0, 0.0, 0.1], functions=4, **QUICK,
    )  # fmt: skip
    odds = agents.choose(torch.randn(50, 4)).probabilities
    assert odds[0].unique().tolist() == pytest.approx([0.1, 0.9])
    assert odds[1].unique().tolist() == pytest.approx([0.25, 0.75])
    shares = ((odds[2] - 0.1) / 0.8 * 4).flatten()
    torch.testing.assert_close(shares, shares.round())
    assert odds[2].min() >= 0.1 - 1e-12


def test_actions_come_as_often_as_they_should():
    agents = decide.BanditPopulation(some(2), 2, rule="epsilon", epsilon=[0.2, 0.6], **QUICK)
    choices = agents.choose(torch.zeros(40_000, 4))
    assert torch.equal(
        choices.probability,
        choices.probabilities.gather(2, choices.action[..., None]).squeeze(2),
    )
    for odds, actions in zip(choices.probabilities, choices.action, strict=True):
        rate, share = odds[0, 1].item(), actions.double().mean().item()
        # 5.5 standard errors: a false alarm in 3e7 runs
        assert abs(share - rate) < 5.5 * math.sqrt(rate * (1 - rate) / 40_000)


def test_ensembles_with_prior_functions_have_shares_of_their_members():
    torch.manual_seed(0)
    nets = [[decide.PriorFunction(network(0.0), 3.0) for _ in range(5)] for _ in range(2)]
    agents = decide.BanditPopulation(nets, 2, steps=2, **QUICK)
    before = [copy.deepcopy(list(one.state_dict().values())) for one in nets[0]]
    shares = agents.choose(torch.randn(30, 4)).probabilities * 5
    torch.testing.assert_close(shares, shares.round())
    assert shares.unique().numel() > 2
    lived(agents, rounds=5)
    agents.write()
    after = [list(one.state_dict().values()) for one in nets[0]]
    moved = [
        not torch.equal(a, b)
        for a, b in zip(sum(before, []), sum(after, []), strict=True)  # noqa: RUF017
    ]
    assert 0 < sum(moved) < len(moved)  # the prior functions have not


def test_a_state_goes_on_to_the_same_bits():
    options = {**QUICK, "steps": 2, "functions": 8, "schedule": lambda step: 1 / (1 + step)}
    one = decide.BanditPopulation(some(2), 2, **options)
    lived(one, rounds=4)
    other = decide.BanditPopulation(some(2), 2, **options)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    assert torch.equal(lived(one, rounds=6), lived(other, rounds=6))
    x = torch.randn(3, 4)
    assert torch.equal(one.expected(x), other.expected(x))


@pytest.mark.parametrize("functions", [1, 8])
def test_one_function_is_not_enough_for_thompson_sampling(functions):
    agents = decide.BanditPopulation(some(2, drop=0), 2, functions=functions, **QUICK)
    with pytest.raises(ValueError, match="expected noise, or ensembles, for the rule thompson"):
        agents.choose(torch.ones(1, 4))


def test_the_global_generator_stays_where_it_is():
    nets = some(2)
    before = torch.get_rng_state()
    lived(decide.BanditPopulation(nets, 2, **QUICK), rounds=2)
    assert torch.equal(before, torch.get_rng_state())


def agents_of_two():
    return decide.BanditPopulation(some(2), 2, **QUICK)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: decide.BanditPopulation([], 2, **QUICK), "nets: expected one for each agent"),
        (
            lambda: decide.BanditPopulation([some(2), some(3)], 2, **QUICK),
            r"ensembles of one size, got sizes \[2, 3\]",
        ),
        (
            lambda: decide.BanditPopulation(some(2), 2, rule=["greedy"], **QUICK),
            "rule: expected one for each of 2 agents, got 1",
        ),
        (
            lambda: decide.BanditPopulation(some(2, drop=0), 2, **QUICK).choose(torch.ones(1, 4)),
            "expected noise, or ensembles, for the rule thompson",
        ),
        (
            lambda: agents_of_two().update(torch.zeros(3, 4), torch.zeros(3).long(), [0.0] * 3),
            r"actions: expected shape \(2, 3\), a row for each agent",
        ),
        (
            lambda: agents_of_two().update(
                torch.zeros(1, 4), torch.tensor([[0], [2]]), torch.zeros(2, 1)
            ),
            "actions: expected numbers from 0 to 1, got some from 0 to 2",
        ),
        (
            lambda: agents_of_two().update(
                torch.zeros(1, 4), torch.tensor([[0], [1]]), torch.tensor([[0.0], [math.nan]])
            ),
            "rewards: expected finite numbers",
        ),
        (
            lambda: agents_of_two().update(torch.zeros(1, 4), torch.zeros(2, 1), torch.zeros(2, 1)),
            "actions: expected whole numbers",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_contexts_of_another_width_are_refused():
    agents = agents_of_two()
    agents.choose(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="contexts: expected 4 numbers in each as before, got 5"):
        agents.choose(torch.zeros(2, 5))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("steps", [0, 1])
def test_a_first_update_that_does_not_fit_the_networks(own, steps):
    agents = decide.BanditPopulation(some(2), 2, own_contexts=own, **QUICK)
    x = torch.zeros(2, 3, 5) if own else torch.zeros(3, 5)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        agents.update(x, torch.zeros(2, 3).long(), torch.zeros(2, 3), steps=steps)
    agents.choose(x[..., :4])  # it does not wait for the wrong ones


@pytest.mark.parametrize("steps", [-1, 1.5, True])
def test_wrong_steps_leave_agents_as_they_were(steps):
    agents = agents_of_two()
    with pytest.raises(ValueError, match="steps: expected a whole number >= 0"):
        agents.update(torch.zeros(1, 4), torch.zeros(2, 1).long(), torch.zeros(2, 1), steps=steps)
    assert len(agents._experience) == 0


def test_complex_rewards_are_refused():
    with pytest.raises(TypeError, match="rewards: expected real numbers"):
        agents_of_two().update(torch.zeros(1, 4), torch.zeros(2, 1).long(), torch.zeros(2, 1) + 1j)


def test_what_is_no_likelihood_is_refused():
    with pytest.raises(TypeError, match="likelihood: expected an instance from dubio"):
        decide.BanditPopulation(some(2), 2, likelihood=[likelihoods.Gaussian(1.0), "normal"])


def test_exact_layers_are_refused():
    """They would never be conditioned, and agents would not learn."""
    nets = [nn.Sequential(nn.Linear(4, 3), decide.ExactLinear(3, 2)) for _ in range(2)]
    with pytest.raises(NotImplementedError, match=r"got ExactLinear, .* use a Bandit for each"):
        decide.BanditPopulation(nets, 2, **QUICK)


@pytest.mark.parametrize("array", [np.array, torch.tensor])
def test_settings_may_be_arrays(array):
    options = {"rule": "epsilon", "functions": 4, "likelihood": likelihoods.Gaussian(4.0)}
    ours = decide.BanditPopulation(
        some(2), 2, seeds=array([5, 6]), learning_rate=array([0.125, 0.25]),
        epsilon=array([0.5, 0.0]), **options,
    )  # fmt: skip
    theirs = decide.BanditPopulation(
        some(2), 2, seeds=[5, 6], learning_rate=[0.125, 0.25], epsilon=[0.5, 0.0], **options
    )
    assert torch.equal(lived(ours, 3), lived(theirs, 3))


def test_states_with_a_schedule_of_numpy_can_be_loaded(tmp_path):
    agents = decide.BanditPopulation(some(2), 2, schedule=lambda n: np.float64(0.5) ** n, **QUICK)
    lived(agents, 2)
    torch.save(agents.state_dict(), tmp_path / "state.pt")
    torch.load(tmp_path / "state.pt", weights_only=True)
