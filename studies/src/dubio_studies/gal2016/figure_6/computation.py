"""The numbers of figure 6: foragers that learn to eat apples."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from dubio_studies.agents.exploration import Annealed, Constant, Exploration
from dubio_studies.agents.networks import Kind, q_network
from dubio_studies.agents.q_learning import QLearners, QLearningSettings
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.gal2016.figure_6.timing import TICKS_OF_BATCH, TICKS_OF_FRAME, WINDOW

EYES, ACTIONS = 9, 5
CURVE = 60  # points of a curve, at most
MORE = 30  # agents of each of the paper's two settings, where the end is that of the paper
PUBLISHED_BATCHES = 1000


class ForagerAgent(NamedTuple):
    """An agent of the figure.

    Attributes:
        kind: Of its networks.
        hold: Ticks for which it believes in one function.
        epsilon: Its share of random actions after the burn-in.
    """

    kind: Kind
    hold: int = 1
    epsilon: Annealed | Constant = Constant()


SETTINGS = {
    "epsilon": ForagerAgent("plain", epsilon=Annealed()),
    "thompson": ForagerAgent("dropout"),
    "greedy": ForagerAgent("plain"),
    "episode": ForagerAgent("dropout", TICKS_OF_BATCH),
    "concrete": ForagerAgent("concrete"),
    "ensemble": ForagerAgent("prior", TICKS_OF_BATCH),
}


@dataclass(frozen=True)
class Config:
    """Settings of the comparison.

    Attributes:
        batches: How long agents learn after the burn-in; a batch is 200 ticks.
        burn_in: Batches of random actions before.
        seeds: Agents of each setting, each in its own world.
        settings: Which agents.
        hidden: Units of each of two hidden layers.
        drop: Fixed dropout rate, and initial learned rate.
        members: Networks of an ensemble.
        prior_scale: Of its prior functions.
        memory: Transitions kept.
        start: Number of transitions after which learning starts.
        frames: Pictures of a trained forager, 12 ticks apart.
    """

    batches: int = 1000
    burn_in: int = 25
    seeds: int = 10
    settings: tuple[str, ...] = tuple(SETTINGS)
    hidden: int = 50
    drop: float = 0.1
    members: int = 3
    prior_scale: float = 1.0
    memory: int = 30_000
    start: int = 1000
    frames: int = 6

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if unknown := set(self.settings) - set(SETTINGS):
            raise ValueError(f"settings: expected some of {', '.join(SETTINGS)}, got {unknown}.")
        if (lowest := min(self.batches, self.seeds, self.members)) < 1:
            raise ValueError(f"batches, seeds, members: expected at least 1, got {lowest}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each setting: its agents learn together. The paper's two have more agents."""
    more: list[Piece] = [
        {"agent": name, "more": MORE}
        for name in ("epsilon", "thompson")
        if name in config.settings and config.batches >= PUBLISHED_BATCHES
    ]
    return [*more, *({"agent": name} for name in config.settings)]


def networks(config: Config, name: str, seeds: list[int]) -> list[list[nn.Module]]:
    """The networks of a setting: one for each agent, or the members of its ensemble."""
    members = config.members if name == "ensemble" else 1
    sizes = (3 * EYES, config.hidden, config.hidden, ACTIONS)
    return [
        [
            q_network(
                SETTINGS[name].kind, sizes, seed=(seed + 7919 * member) % 2**61, drop=config.drop,
                prior_scale=config.prior_scale,
            )
            for member in range(members)
        ]
        for seed in seeds
    ]  # fmt: skip


def foragers(
    config: Config, name: str, seeds: list[int], nets: list[list[nn.Module]] | None = None
) -> QLearners:
    """The agents of a setting, with networks of their own unless given."""
    setting = SETTINGS[name]
    nets = networks(config, name, seeds) if nets is None else nets
    random_ticks = TICKS_OF_BATCH * config.burn_in
    explore = Exploration(setting.hold, setting.epsilon, random_ticks)
    learning = QLearningSettings(memory=config.memory, start=config.start)
    return QLearners(nets, ACTIONS, explore, learning, seeds)


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Let the agents of a setting live in their worlds."""
    import gymnasium  # an extra of the studies

    import dubio_studies.worlds  # noqa: F401  registers them
    from dubio_studies.agents.play import play

    name = str(piece["agent"])
    count, before = (MORE, config.seeds) if "more" in piece else (config.seeds, 0)
    seeds = [(seed.own + number) % 2**59 for number in range(count)]
    agents = foragers(config, name, seeds)
    envs: Any = gymnasium.make_vec("dubio/Forager-v0", num_envs=count, reward="gal")
    last = TICKS_OF_BATCH * (config.burn_in + config.batches)
    rewards: deque[np.ndarray[Any, Any]] = deque(maxlen=WINDOW)
    averages: list[np.ndarray[Any, Any]] = []
    frames: list[Measurement] = []
    start_of_frames = last - TICKS_OF_FRAME * config.frames
    worlds = seed.common % 2**31 + before
    for tick, found in enumerate(play(agents, envs, last, seed=worlds), 1):
        rewards.append(found.rewards)
        if tick % TICKS_OF_BATCH == 0 and tick > TICKS_OF_BATCH * config.burn_in:
            averages.append(np.mean(rewards, axis=0))
        number, rest = divmod(tick - start_of_frames, TICKS_OF_FRAME)
        if number > 0 and rest == 0:
            frames += frame_of(number, envs.unwrapped.worlds.scene(0))
    curves = np.array(averages)  # (batches, M)
    marks = np.unique(np.geomspace(1, len(curves), min(CURVE, len(curves))).round().astype(int))
    for agent, curve in enumerate(curves.T, before + 1):
        above = np.flatnonzero(curve > 1)
        first = float(above[0] + 1) if len(above) else float("inf")
        yield {"metric": "first above 1", "seed": agent, "value": min(first, len(curve) + 1)}
        yield {"metric": "reward at the end", "seed": agent, "value": float(curve[-20:].mean())}
        for mark in marks.tolist():
            value = float(curve[mark - 1])
            yield {"metric": "average reward", "seed": agent, "batch": mark, "value": value}
    if "more" not in piece:
        yield from drop_rates(agents)
        yield from frames


def drop_rates(agents: QLearners) -> Iterator[Measurement]:
    """The rates that were learned."""
    for agent, layers in enumerate(agents.drop_rates(), 1):
        for layer, rate in enumerate(layers, 1):
            yield {"metric": "rate", "seed": agent, "layer": layer, "value": rate}


def frame_of(number: int, scene: Any) -> Iterator[Measurement]:
    """What is to be seen of a world: forager, items and rays."""
    x, y, angle = map(float, scene.pose)
    yield {"metric": "pose", "frame": number, "x": x, "y": y, "value": angle}
    for index, (left, top, kind, _) in enumerate(scene.items):
        yield {
            "metric": "item", "frame": number, "index": index, "x": float(left), "y": float(top),
            "value": int(kind),
        }  # fmt: skip
    for eye, (kind, distance) in enumerate(
        zip(scene.eye_kind.tolist(), scene.eye_distance.tolist(), strict=True)
    ):
        yield {
            "metric": "eye", "frame": number, "index": eye, "kind": int(kind),
            "value": float(distance),
        }  # fmt: skip


COMPUTATION = Computation(
    protocol="A forager with nine eyes moves among apples (+5), poison (−6) and walls; every "
        "tick also gives a reward for an open view. A 27-50-50-5 ReLU network gives a value for "
        "each of five actions. It is trained by Q-learning with replay: γ = 0.7, a memory of "
        "30,000 transitions (random ones are overwritten once it is full), and after the first "
        "1,000 one step of plain gradient descent per tick on 64 of them, learning rate 0.001, "
        "weight decay 0.001, no target network. The first 5,000 ticks, 25 batches of 200, are "
        "random. Then the ε-greedy agent lowers ε from 1 to 0.05 between 3,000 and 200,000 "
        "ticks. The Thompson sampling agent takes no random actions; it takes the best action of "
        "one stochastic pass, with dropout of 0.1 after every ReLU. The average reward is over "
        "the last 1,000 ticks, as published. Not in the paper: a greedy agent, without dropout "
        "and without random actions after the burn-in; Thompson sampling with one mask for 200 "
        "ticks, which we call an episode of this endless world; learned rates (Concrete "
        "dropout); an ensemble of three networks with randomised prior functions, each used for "
        "200 ticks. Agents with the same number live in the same world. Claims and rules were "
        "written before the run; the second rule was made stricter afterwards: before, agents "
        f"that never get there counted. At the scale paper {MORE} more ε-greedy and Thompson "
        "sampling agents were added after ten of each, whose rewards in the end differed by 1.4 "
        "standard errors.",
    scales={
        "smoke": Config(
            batches=1, burn_in=1, seeds=2, hidden=8, members=2, memory=400, start=360, frames=2,
        ),
        "small": Config(batches=200),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "Physics and rewards are those of the demonstration that the paper builds on "
            "(ConvNetJS), with the authors' change: the reward for an open view is not doubled. "
            "The text of the paper says dropout before every weight layer; here it is after "
            "every non-linearity, as in the earlier version of the paper that gives all "
            "constants.",
        "The paper shows one run of each agent; we have several, each in its own world.",
        "Greedy, one mask for 200 ticks, learned rates and ensembles are not in the paper.",
    ),
)  # fmt: skip
