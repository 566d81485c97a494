"""The numbers of deep sea: agents that dive until they have found the treasure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dubio_studies.agents.exploration import Constant, Exploration
from dubio_studies.agents.networks import Kind, q_network
from dubio_studies.agents.q_learning import QLearners, QLearningSettings
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

SOLVED_BELOW = 0.8  # the share of bad episodes so far, as in bsuite
MARKS = 20  # of curves
FUNCTIONS = 32  # that are compared


class Explorer(NamedTuple):
    """An explorer.

    Attributes:
        kind: Of its networks.
        hold: Ticks for which it believes in one function; None for an episode.
        epsilon: Its share of random actions.
        drop: Of dropout, and where learned rates start.
    """

    kind: Kind
    hold: int | None = None
    epsilon: float = 0.0
    drop: float = 0.1


SETTINGS = {
    "epsilon": Explorer("plain", epsilon=0.05),
    "dropout 0.1, step": Explorer("dropout", 1),
    "dropout 0.1, episode": Explorer("dropout"),
    "dropout 0.5, step": Explorer("dropout", 1, drop=0.5),
    "dropout 0.5, episode": Explorer("dropout", drop=0.5),
    "concrete": Explorer("concrete"),
    "bernoulli": Explorer("bernoulli"),
    "ensemble": Explorer("plain"),
    "prior": Explorer("prior"),
}
ENSEMBLES = ("prior", "ensemble")


@dataclass(frozen=True)
class Config:
    """Settings of the comparison.

    Attributes:
        sizes: N of the seas.
        episodes: Episodes after which an agent gives up.
        seeds: Agents of each setting.
        settings: Which explorers.
        members: Networks of an ensemble.
        prior_scale: Of its prior functions.
        batch_size: Transitions per step and network.
        every: Steps of the diver per optimiser step.
        hidden: Units of each of two hidden layers.
        precision: τ of the likelihood, which learned rates are weighed against.
    """

    sizes: tuple[int, ...] = (10, 14, 20)
    episodes: int = 1000
    seeds: int = 5
    settings: tuple[str, ...] = tuple(SETTINGS)
    members: int = 20
    prior_scale: float = 5.0
    batch_size: int = 128
    every: int = 1
    hidden: int = 50
    precision: float = 100.0

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if unknown := set(self.settings) - set(SETTINGS):
            raise ValueError(
                f"settings: expected some of {', '.join(map(repr, SETTINGS))}, got "
                f"{', '.join(map(repr, sorted(unknown)))}."
            )
        if (lowest := min(*self.sizes, self.episodes, self.seeds, self.members)) < 1:
            raise ValueError(f"sizes, episodes, seeds, members: expected at least 1, got {lowest}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each explorer and sea, ensembles first: its agents learn together."""
    names = sorted(config.settings, key=lambda name: name not in ENSEMBLES)
    return [{"explorer": name, "size": size} for size in config.sizes for name in names]


def divers(config: Config, name: str, size: int, seeds: list[int]) -> QLearners:
    """The agents of a setting."""
    setting = SETTINGS[name]
    members = config.members if name in ENSEMBLES else 1
    sizes = (size * size, config.hidden, config.hidden, 2)
    nets = [
        [
            q_network(
                setting.kind, sizes, seed=(seed + 7919 * member) % 2**61, drop=setting.drop,
                prior_scale=config.prior_scale,
            )
            for member in range(members)
        ]
        for seed in seeds
    ]  # fmt: skip
    learning = QLearningSettings(
        discount=0.99, memory=10_000, start=config.batch_size, batch_size=config.batch_size,
        every=config.every,
        optimizer="adam", learning_rate=1e-3, precision=config.precision,
    )  # fmt: skip
    explore = Exploration(setting.hold, Constant(setting.epsilon))
    return QLearners(nets, 2, explore, learning, seeds)


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Let the agents of a setting dive, until all have solved the sea or all episodes are over."""
    import gymnasium  # an extra of the studies

    import dubio_studies.worlds  # noqa: F401  registers them
    from dubio_studies.agents.play import play

    name, size = str(piece["explorer"]), int(str(piece["size"]))
    seeds = [(seed.own + number) % 2**55 for number in range(config.seeds)]
    agents = divers(config, name, size, seeds)
    envs = gymnasium.make_vec(
        "dubio/DeepSea-v0", num_envs=config.seeds, vectorization_mode="sync", size=size
    )
    tally = Tally(config.seeds, config.episodes, size)
    ticks = (size + 1) * config.episodes  # one of them to start anew
    every = max(1, config.episodes // MARKS)
    for tick in play(agents, envs, ticks, seed=0):
        tally.add(tick.x, tick.rewards)
        if not tick.over.any():  # episodes of all agents are of one length
            continue
        tally.end_episode()
        last = tally.episode == config.episodes or tally.all_solved
        if last or tally.episode % every == 0:
            yield from tally.curves()
            yield from spreads(agents, tally.visited, tally.episode)
        if last:
            break
    yield from tally.totals()
    for agent, layers in enumerate(agents.drop_rates(), 1):
        for layer, rate in enumerate(layers, 1):
            yield {"metric": "rate", "seed": agent, "layer": layer, "value": rate}


class Tally:
    """What agents have come to, episode by episode."""

    def __init__(self, agents: int, episodes: int, size: int) -> None:
        self.episode = 0
        self.visited = np.zeros((agents, size, size), dtype=np.bool_)
        self._returns = np.zeros(agents)
        self._treasures = np.zeros(agents, dtype=np.int64)
        self._first, self._solved = (np.full(agents, episodes + 1) for _ in range(2))

    def add(self, x: NDArray[np.float32], rewards: NDArray[np.float64]) -> None:
        """A tick."""
        self.visited |= x > 0
        self._returns += rewards

    def end_episode(self) -> None:
        """All agents have done N steps."""
        self.episode += 1
        good = self._returns > 0.5
        self._returns[:] = 0
        self._treasures += good
        self._first = np.where(good, np.minimum(self._first, self.episode), self._first)
        bad = 1 - self._treasures / self.episode
        solved = bad < SOLVED_BELOW
        self._solved = np.where(solved, np.minimum(self._solved, self.episode), self._solved)

    @property
    def all_solved(self) -> bool:
        """Whether there is nothing left to find out."""
        return bool((self._solved <= self.episode).all())

    def curves(self) -> Iterator[Measurement]:
        """How many treasures were found so far."""
        for agent, found in enumerate(self._treasures.tolist(), 1):
            yield {"metric": "treasures", "seed": agent, "episode": self.episode, "value": found}

    def totals(self) -> Iterator[Measurement]:
        """When the first treasure was found, and when the sea was solved."""
        for metric, values in (("first treasure", self._first), ("solved", self._solved)):
            for agent, value in enumerate(values.tolist(), 1):
                yield {"metric": metric, "seed": agent, "value": value}


def spreads(agents: QLearners, visited: NDArray[np.bool_], episode: int) -> Iterator[Measurement]:
    """How much functions differ about cells that were visited, and about others."""
    size = visited.shape[1]
    cells = np.flatnonzero(np.tril(np.ones((size, size))))  # which can be reached
    functions = agents.spread(torch.eye(size * size)[cells], FUNCTIONS).numpy()  # (M, cells)
    for agent, (own, seen) in enumerate(zip(functions, visited, strict=True), 1):
        known = seen.reshape(-1)[cells]
        for metric, which in (("spread, visited", known), ("spread, unvisited", ~known)):
            if which.any():
                value = float(own[which].mean())
                yield {"metric": metric, "seed": agent, "episode": episode, "value": value}


COMPUTATION = Computation(
    protocol="A diver sinks one row per step through N × N cells. Only N steps to the right find "
        "the treasure, worth 1; every step to the right costs 0.01/N; which of two actions goes "
        "right differs from cell to cell. Random actions find it once in 2ᴺ episodes. The agents "
        "are those of bsuite's bootstrapped DQN except for how they explore: two layers of 50 "
        "ReLU units on the one-hot cell, γ = 0.99, the last 10,000 transitions, and once there "
        "are more than 128, one Adam step (0.001) on 128 of them after every step of the diver. "
        "An agent follows one function for an episode (or for one step) and takes the best "
        "action under it: a network with one mask, or one member of an ensemble. A sea is solved "
        "at the first episode after which less than 80 % of all episodes so far missed the "
        "treasure, the rule in bsuite's code (its axes say 90 %). Agents stop once all five of a "
        "setting have solved it, or after 1,000 episodes. Claims and rules were written before "
        "the run.",
    scales={
        "smoke": Config(sizes=(4,), episodes=8, seeds=2, members=3, batch_size=8, hidden=8),
        "small": Config(members=10, batch_size=32, every=2),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "There is no target network, there are no random actions besides the rule, and every "
            "member of an ensemble has its own batches; bsuite shows each transition to half of "
            "the members.",
        "Weights are initialised as in ConvNetJS: N(0, 1/inputs), biases 0.1.",
        "ε-greedy has ε = 0.05; learned rates start at 0.1, with a prior of length scale 1 and a "
        "likelihood of precision 100; neither was tuned.",
    ),
)  # fmt: skip
