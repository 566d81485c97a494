"""The numbers of figures 23 to 25: agents that meet the same mushrooms."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dubio.decide import ActionRule
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.worlds.agents import AgentLearning, Kind, agents, begin, play
from dubio_studies.worlds.bandits import EAT, Mushrooms

POINTS = 25  # of a curve


class MushroomAgent(NamedTuple):
    """An agent of the figures.

    Attributes:
        kind: Of its network.
        rule: By which it chooses.
        epsilon: Share of random actions.
        changes: Of the way it learns.
    """

    kind: Kind
    rule: ActionRule = "thompson"
    epsilon: float = 0.0
    changes: tuple[tuple[str, float], ...] = ()


SETTINGS = {
    "bayes": MushroomAgent("bayes"),
    "greedy": MushroomAgent("plain", "greedy"),
    "epsilon 1 %": MushroomAgent("plain", "epsilon", 0.01),
    "epsilon 5 %": MushroomAgent("plain", "epsilon", 0.05),
    "dropout": MushroomAgent("dropout"),
    "concrete": MushroomAgent("concrete"),
    "bernoulli": MushroomAgent("bernoulli"),
    "ensemble": MushroomAgent("ensemble"),
    "linear": MushroomAgent("linear"),
    "bayes, slab 0.75": MushroomAgent("bayes", changes=(("slab_sigma", 0.75),)),
    "bayes, slab 0.25": MushroomAgent("bayes", changes=(("slab_sigma", 0.25),)),
    "bayes, slab 4": MushroomAgent("bayes", changes=(("slab_sigma", 4.0),)),
    "bayes, rate 1e-3": MushroomAgent("bayes", changes=(("learning_rate", 1e-3),)),
    "bayes, rate 1e-5": MushroomAgent("bayes", changes=(("learning_rate", 1e-5),)),
}
MAIN = tuple(SETTINGS)[:9]


@dataclass(frozen=True)
class Config(AgentLearning):
    """Settings of the comparison.

    Attributes:
        interactions: Mushrooms that each agent meets.
        start: Mushrooms with random actions before.
        seeds: Agents of each setting.
        variants: Agents of each setting of figures 26 and 27.
        settings: Which agents.
    """

    interactions: int = 50_000
    start: int = 4096
    seeds: int = 5
    variants: int = 3
    settings: tuple[str, ...] = tuple(SETTINGS)

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if unknown := set(self.settings) - set(SETTINGS):
            raise ValueError(f"settings: expected some of {', '.join(SETTINGS)}, got {unknown}.")
        if (lowest := min(self.interactions, self.start, self.seeds, self.variants)) < 1:
            raise ValueError(
                f"interactions, start, seeds, variants: expected at least 1, got {lowest}."
            )


def pieces(config: Config) -> list[Piece]:
    """A piece for each setting: its agents learn together."""
    return [{"agent": name} for name in config.settings]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Let the agents of a setting meet the mushrooms."""
    name = str(piece["agent"])
    setting = SETTINGS[name]
    count = config.seeds if name in MAIN else config.variants
    world = Mushrooms.drawn(config.start + config.interactions, seed.common, drop_first=True)
    learning = replace(
        AgentLearning(
            **{field.name: getattr(config, field.name) for field in fields(AgentLearning)}
        ),
        average=2 if setting.kind == "bayes" else 1,
        **dict(setting.changes),  # type: ignore[arg-type]
    )
    seeds = [(seed.own + number) % 2**62 for number in range(count)]
    rules: list[ActionRule] = [setting.rule] * count
    players = agents(
        setting.kind, world, learning, rules, [setting.epsilon] * count, seeds, joint=True
    )
    begin(players, world, config.start, seed.common)
    steps = range(config.start, len(world))
    actions = play(players, world, steps, every=1)
    for agent, own in enumerate(actions, start=1):
        for row in measured(world, own, config.start):
            yield {"seed": agent, **row}


def measured(world: Mushrooms, actions: Tensor, start: int) -> Iterator[Measurement]:
    """Curves and totals of one agent."""
    here = slice(start, len(world))
    regret = world.regrets[here].gather(1, actions[:, None]).squeeze(1)
    best = torch.where(world.poisonous[here], 0.0, 5.0)
    realised = best - world.rewards(here, actions)
    eaten, poisonous = actions == EAT, world.poisonous[here]
    curves = {
        "regret": regret.cumsum(0),
        "realised regret": realised.double().cumsum(0),
        "eaten": eaten.double().cumsum(0),
        "poison eaten": (eaten & poisonous).double().cumsum(0),
        "food refused": (~eaten & ~poisonous).double().cumsum(0),
    }
    steps = len(actions)
    marks = np.unique(np.linspace(0, steps, min(POINTS, steps) + 1).round().astype(int))[1:]
    for metric, curve in curves.items():
        for mark in marks.tolist():
            yield {"metric": metric, "step": mark, "value": float(curve[mark - 1])}


COMPUTATION = Computation(
    protocol="An agent sees one mushroom after another and eats it or not. Eating an edible one "
        "gives 5; eating a poisonous one gives −35 or 5 with equal probability; not eating gives "
        "0. A 97-100-100-1 ReLU network predicts the reward from 95 columns for the mushroom "
        "(one-hot without the first category of each feature) and two for the action. Agents "
        "start with 4,096 mushrooms and random actions. The last 4,096 rewards are kept, and "
        "after every mushroom there are 64 Adam steps on batches of 64. The learning rate of "
        "1e-4 is halved every 5,000 mushrooms. The likelihood has a standard deviation of 1. "
        "Bayes by Backprop has the mixture prior with deviations 1 and exp(−6), is initialised "
        "as published, and chooses by the mean of two draws; other agents with noise use one "
        "draw. All agents meet the same mushrooms with the same random rewards. Regret is "
        "relative to the expected rewards, which are known; regret relative to the realised "
        "rewards, as in the paper, is also shown. Claims and rules were written before the run; "
        "the one on linear growth had no upper limit then.",
    scales={
        "smoke": Config(
            interactions=30, start=64, seeds=2, variants=1, steps=2, hidden=8, members=2,
            settings=("bayes", "greedy", "epsilon 1 %", "epsilon 5 %", "dropout", "ensemble"),
        ),
        "small": Config(interactions=2000, settings=MAIN),
        "paper": Config(settings=MAIN),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "The KL has equal weight in every step and num_data is the number of rewards kept; "
            "the authors concentrate it on the first of 64 minibatches with weights "
            "2^(64−i)/(2^64 − 1).",
        "Batches are drawn with replacement from the kept rewards; the authors go through "
            "all of them in random order, which is the same number of rows.",
        "The greedy network has the same likelihood as the Bayesian one; the authors' "
            "network minimises the mean squared error, which under Adam is the same up to Adam's "
            "ε.",
        "Dropout with fixed, Concrete and learnable rates (drop 0.1), an ensemble of five "
            "networks with randomised prior functions, and exact Bayesian linear regression on "
            "the mushroom, separately for each action, are not in the paper.",
    ),
)  # fmt: skip
