"""Agents of several kinds that play bandits, many at a time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, final

import torch
from torch import Tensor, nn

import dubio
from dubio import decide, masks
from dubio.likelihoods import Gaussian
from dubio.priors import ScaleMixture
from dubio_studies.worlds.bandits import Stream

Kind = Literal[
    "bayes", "plain", "dropout", "concrete", "bernoulli", "ensemble", "linear", "neural linear"
]  # fmt: skip
"""Bayes by Backprop; no noise; dropout with fixed, Concrete and learnable rates; an ensemble with
randomised prior functions; exact Bayesian regression on the context, or on what a network makes of
it."""


class Players(Protocol):
    """Agents; contexts are `(B, D)`, the same for all, or `(M, B, D)`, of their own."""

    def __len__(self) -> int: ...

    def choose(self, contexts: Tensor) -> Tensor:
        """Actions `(M, B)`."""
        ...

    def update(
        self, contexts: Tensor, actions: Tensor, rewards: Tensor, *, steps: int | None = None
    ) -> None:
        """Learn from rewards `(M, B)`."""
        ...


@final
class Together:
    """Agents whose networks train as one batched computation."""

    def __init__(self, agents: decide.BanditPopulation) -> None:
        self._agents = agents

    def __len__(self) -> int:
        return len(self._agents)

    def choose(self, contexts: Tensor) -> Tensor:
        """Actions of all."""
        return self._agents.choose(contexts).action

    def update(
        self, contexts: Tensor, actions: Tensor, rewards: Tensor, *, steps: int | None = None
    ) -> None:
        """Learn, all at once."""
        self._agents.update(contexts, actions, rewards, steps=steps)
        if bool(self._agents.failed.any()):
            raise FloatingPointError("agents: expected finite losses; use a smaller learning rate.")


@final
class OneByOne:
    """Agents that learn for themselves."""

    def __init__(self, agents: Sequence[decide.Bandit]) -> None:
        self._agents = agents

    def __len__(self) -> int:
        return len(self._agents)

    def choose(self, contexts: Tensor) -> Tensor:
        """Actions of all."""
        own = contexts.expand(len(self), *contexts.shape[-2:])
        chosen = [agent.choose(x) for agent, x in zip(self._agents, own, strict=True)]
        for agent, choice in zip(self._agents, chosen, strict=True):
            agent.forget(choice.id)
        return torch.stack([choice.action for choice in chosen])

    def update(
        self, contexts: Tensor, actions: Tensor, rewards: Tensor, *, steps: int | None = None
    ) -> None:
        """Learn, one after the other."""
        own = contexts.expand(len(self), *contexts.shape[-2:])
        for agent, *given in zip(self._agents, own, actions, rewards, strict=True):
            agent.update(*given, steps=steps)


@dataclass(frozen=True)
class AgentLearning:
    """How agents learn.

    Attributes:
        hidden: Units of each of two hidden layers.
        memory: Number of the last rewards used for training.
        every: Contexts between updates.
        steps: Gradient steps of an update.
        batch_size: Rows per step.
        learning_rate: Of Adam.
        halve_every: Updates between halvings of the learning rate; 0 for never.
        noise: Standard deviation of rewards, that of the likelihood.
        drop: Fixed dropout rate, and initial learned rate.
        slab_sigma: The wide deviation of the mixture prior of Bayes by Backprop.
        spike_sigma: Its narrow one.
        members: Of an ensemble.
        prior_scale: Of its prior functions.
        functions: Functions drawn per choice.
        average: Draws averaged per function.
    """

    hidden: int = 100
    memory: int = 4096
    every: int = 1
    steps: int = 64
    batch_size: int = 64
    learning_rate: float = 1e-4
    halve_every: int = 5000
    noise: float = 1.0
    drop: float = 0.1
    slab_sigma: float = 1.0
    spike_sigma: float = math.exp(-6)
    members: int = 5
    prior_scale: float = 1.0
    functions: int = 1
    average: int = 1


@final
@dataclass(frozen=True)
class Halving:
    """A schedule: half the learning rate after every so many updates."""

    every: int

    def __call__(self, update: int) -> float:
        """The factor of the learning rate."""
        return 0.5 ** (update // self.every) if self.every else 1.0


def network(kind: Kind, inputs: int, outputs: int, learning: AgentLearning) -> nn.Module:
    """Two hidden layers with rectifiers."""
    hidden = learning.hidden
    if kind == "bayes":
        prior = ScaleMixture(sigma1=learning.slab_sigma, sigma2=learning.spike_sigma, pi=0.5)
        layers = [
            dubio.BayesLinear(*sizes, prior=prior)
            for sizes in ((inputs, hidden), (hidden, hidden), (hidden, outputs))
        ]
        for layer in layers:
            start_as_published(layer)
        return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    make: dict[str, Callable[[], masks.Mask]] = {
        "concrete": lambda: masks.Concrete(drop=learning.drop),
        "bernoulli": lambda: masks.LearnableBernoulli(drop=learning.drop),
    }

    def linear(features: int, units: int) -> nn.Module:
        plain = nn.Linear(features, units)
        return dubio.Masked(plain, make[kind]()) if kind in make else plain

    def dropped() -> list[nn.Module]:
        return [nn.Dropout(learning.drop)] if kind == "dropout" else []

    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), *dropped(), linear(hidden, hidden), nn.ReLU(),
        *dropped(), linear(hidden, outputs),
    )  # fmt: skip


def start_as_published(layer: dubio.Bayesian) -> None:
    """μ ~ U(−0.2, 0.2) and ρ ~ U(−5, −4) (Clark et al. 2022, section 3)."""
    with torch.no_grad():
        for mean in layer.layer.parameters():
            mean.uniform_(-0.2, 0.2)
        layer.rho.uniform_(-5.0, -4.0)


def agents(
    kind: Kind,
    stream: Stream,
    learning: AgentLearning,
    rules: list[decide.ActionRule],
    epsilon: list[float],
    seeds: list[int],
    *,
    joint: bool,
    own_contexts: bool = False,
) -> Players:
    """Agents with networks of one kind.

    Args:
        kind: Of networks.
        stream: What they will meet.
        learning: How they learn.
        rules: Of each agent.
        epsilon: Of each agent.
        seeds: Of each agent.
        joint: Whether the network takes context and action, as that of the paper, or gives one
            reward for each action.
        own_contexts: Whether each agent meets a stream of its own.
    """
    width = stream.contexts.shape[-1]
    if kind in ("linear", "neural linear"):
        return OneByOne(
            [_regression(kind, width, stream.actions, learning, seed) for seed in seeds]
        )
    sizes = (width + stream.actions, 1) if joint else (width, stream.actions)

    def one(seed: int) -> nn.Module | list[nn.Module]:
        torch.manual_seed(seed)
        if kind != "ensemble":
            return network(kind, *sizes, learning)
        return [
            decide.PriorFunction(network("plain", *sizes, learning), learning.prior_scale)
            for _ in range(learning.members)
        ]

    population = decide.BanditPopulation(
        [one(seed) for seed in seeds],
        stream.actions,
        likelihood=Gaussian(learning.noise**-2),
        rule=rules,
        epsilon=epsilon,
        action_features="one-hot" if joint else None,
        memory=learning.memory,
        steps=learning.steps,
        batch_size=learning.batch_size,
        learning_rate=learning.learning_rate,
        schedule=Halving(learning.halve_every),
        functions=learning.functions,
        average=learning.average,
        seeds=seeds,
        own_contexts=own_contexts,
    )
    return Together(population)


def _regression(
    kind: Kind, inputs: int, actions: int, learning: AgentLearning, seed: int
) -> decide.Bandit:
    """An agent with an exact posterior of its last layer, or of its only one."""
    torch.manual_seed(seed)
    hidden = learning.hidden
    last = decide.ExactLinear(inputs if kind == "linear" else hidden, actions)
    trunk = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
    return decide.Bandit(
        nn.Sequential(*([] if kind == "linear" else trunk), last),
        actions,
        likelihood=Gaussian(learning.noise**-2),
        memory=learning.memory,
        steps=learning.steps,
        batch_size=learning.batch_size,
        learning_rate=learning.learning_rate,
        schedule=Halving(learning.halve_every),
        functions=learning.functions,
        seed=seed,
    )


def play(players: Players, stream: Stream, steps: range, every: int) -> Tensor:  # (M, T)
    """Let agents act and learn along a stream; what they have done.

    Args:
        players: The agents.
        stream: Contexts and rewards.
        steps: Which part of the stream.
        every: Contexts between updates; they choose for so many at a time.
    """
    done = []
    for start in range(steps.start, steps.stop, every):
        here = slice(start, min(start + every, steps.stop))
        contexts = stream.contexts[..., here, :]
        actions = players.choose(contexts)
        players.update(contexts, actions, stream.rewards(here, actions))
        done.append(actions)
    return torch.cat(done, 1)


def begin(players: Players, stream: Stream, count: int, seed: int) -> None:
    """Random actions in the first contexts of a stream, the same for all agents."""
    here = slice(0, count)
    generator = torch.Generator().manual_seed(seed)
    actions = torch.randint(stream.actions, (count,), generator=generator)
    actions = actions.expand(len(players), -1)
    players.update(stream.contexts[..., here, :], actions, stream.rewards(here, actions), steps=0)
