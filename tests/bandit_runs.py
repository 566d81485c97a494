"""Agents of every kind in a small world, where rewards come late, in batches and in part."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import dubio
from dubio import decide
from dubio.likelihoods import Bernoulli, Gaussian

WIDTH, ACTIONS = 3, 3


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, ACTIONS))


def with_masks(mask: Callable[[int], dubio.masks.Mask]) -> nn.Module:
    return nn.Sequential(
        nn.Linear(WIDTH, 8), nn.ReLU(), dubio.Masked(nn.Linear(8, ACTIONS), mask(8))
    )


def of_pairs() -> nn.Module:
    layers = dubio.BayesLinear(WIDTH + ACTIONS, 8), nn.ReLU(), dubio.BayesLinear(8, 1)
    return nn.Sequential(*layers)


def ensemble() -> list[nn.Module]:
    def member() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, ACTIONS))

    return [decide.PriorFunction(member(), 2.0, seed=seed) for seed in range(3)]


def made(kind: str, **options: Any) -> decide.Bandit:
    """An agent, always the same."""
    options = {"functions": 8, "batch_size": 8, "memory": 10, "steps": 2, "seed": 3} | options
    gaussian: Any = Gaussian(4.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        match kind:
            case "dropout":
                return decide.Bandit(
                    with_dropout(), ACTIONS, likelihood=Bernoulli(), average=2, **options
                )
            case "concrete":
                net = with_masks(dubio.masks.Concrete)
                likelihood = dubio.likelihoods.LearnedGaussian()
                return decide.Bandit(net, ACTIONS, likelihood=likelihood, **options)
            case "learnable":
                net = with_masks(dubio.masks.LearnableBernoulli)
                return decide.Bandit(net, ACTIONS, likelihood=gaussian, rule="upper", **options)
            case "bayes":
                return decide.Bandit(
                    of_pairs(), ACTIONS, likelihood=gaussian, action_features="one-hot",
                    floor=0.1, schedule=halved, **options,
                )  # fmt: skip
            case "ensemble":
                return decide.Bandit(ensemble(), ACTIONS, likelihood=gaussian, **options)
            case "plain":
                net = nn.Linear(WIDTH, ACTIONS)
                return decide.Bandit(net, ACTIONS, likelihood=gaussian, rule="epsilon", **options)
    raise ValueError(kind)


KINDS = ("dropout", "concrete", "learnable", "bayes", "ensemble", "plain")


def halved(interaction: int) -> float:
    return 0.5 ** (interaction // 5)


def context(step: int) -> Tensor:  # (B, WIDTH), one to three rows
    draw = torch.Generator().manual_seed(100 + step)
    return torch.randn(1 + step % 3, WIDTH, generator=draw)


def reward(one: int) -> float:
    return float(one * 7 % 3 == 0)


def run(agent: decide.Bandit, steps: int) -> decide.Bandit:
    """Choices up to a step, rewards two or more steps later; goes on from wherever the agent is."""
    rows = 0
    for step in range(steps):
        contexts = context(step)
        if agent.choices <= rows:
            agent.choose(contexts, [True, step % 4 != 0, True] if step % 2 else None)
        rows += len(contexts)
        if agent.choices > rows:  # this step was over when the agent was saved
            continue
        late = agent.pending[agent.pending < rows - 5]
        if len(late) > 2:
            agent.update(late[1:], [reward(one) for one in late[1:].tolist()])  # not the first
        if len(late) and int(late[0]) < rows - 12:
            agent.forget(late[:1])
    return agent


def result(agent: decide.Bandit) -> dict[str, Any]:
    """All that can be seen of an agent, and its next choice."""
    return {
        "log": agent.log.to_frame().to_dict("list"),
        "pending": agent.pending.tolist(),
        "interactions": agent.interactions,
        "remembered": agent.remembered,
        "expected": agent.expected(context(2)).tolist(),
        "choice": agent.choose(context(0)).probabilities.tolist(),
        "weights": [
            value.tolist()
            for net in agent._parts["net"]
            for name, value in net.state_dict().items()
        ],
    }
