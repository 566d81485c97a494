"""Regrets of agents on mushrooms and wheels, relative to uniform actions."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from dubio.decide import ActionRule
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.uncertainty.bandits.published import LONG, METHODS, SHORT
from dubio_studies.worlds.agents import AgentLearning, Kind, agents, begin, play
from dubio_studies.worlds.bandits import Mushrooms, SideBySide, Stream, Wheel

KINDS: dict[str, Kind] = {
    "bayes": "bayes",
    "dropout": "dropout",
    "concrete": "concrete",
    "bernoulli": "bernoulli",
    "ensemble": "ensemble",
    "linear": "linear",
    "neural linear": "neural linear",
    "greedy": "plain",
}


@dataclass(frozen=True)
class Config(AgentLearning):
    """Settings of the comparison.

    Attributes:
        problems: Which bandits.
        methods: Which agents.
        trials: Streams of contexts; every method has its own agent for each.
        interactions: Contexts of a stream.
        pulls: Random actions before, for each action.
        long_problems: Which bandits with long streams.
        long_methods: Which agents meet them.
        long_trials: Long streams.
        long_interactions: Contexts of a long stream, all used for training.
        long_every: Contexts between updates there.
        long_steps: Gradient steps of an update there.
    """

    problems: tuple[str, ...] = tuple(SHORT)
    methods: tuple[str, ...] = tuple(METHODS)
    trials: int = 20
    interactions: int = 2000
    pulls: int = 3
    every: int = 10
    steps: int = 20
    learning_rate: float = 3e-3
    halve_every: int = 0
    slab_sigma: float = 1.0
    spike_sigma: float = 0.1
    functions: int = 32
    long_problems: tuple[str, ...] = tuple(LONG)
    long_methods: tuple[str, ...] = ("linear", "neural linear", "dropout", "bayes")
    long_trials: int = 5
    long_interactions: int = 80_000
    long_every: int = 400
    long_steps: int = 80

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        for name, known in (
            ("problems", SHORT),
            ("methods", METHODS),
            ("long_problems", LONG),
            ("long_methods", METHODS),
        ):
            if unknown := set(getattr(self, name)) - set(known):
                raise ValueError(f"{name}: expected some of {', '.join(known)}, got {unknown}.")
        for name in (
            *("trials", "interactions", "pulls"),
            *("long_trials", "long_interactions", "long_every", "long_steps"),
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}.")

    def of(self, problem: str) -> "Config":
        """The settings of a problem: those of long streams where it has them."""
        if problem not in LONG:
            return self
        return replace(
            self, trials=self.long_trials, interactions=self.long_interactions,
            every=self.long_every, steps=self.long_steps, memory=self.long_interactions,
        )  # fmt: skip


def pieces(config: Config) -> list[Piece]:
    """A piece for each problem and method."""
    pairs = [(problem, method) for problem in config.problems for method in config.methods]
    pairs += [(problem, method) for problem in config.long_problems
              for method in config.long_methods]  # fmt: skip
    return [{"problem": problem, "method": method} for problem, method in pairs]


def stream(problem: str, steps: int, seed: int) -> Stream:
    """The contexts of a problem."""
    name, _, rim = problem.removeprefix("long ").partition(" ")
    return Wheel.drawn(steps, float(rim), seed) if name == "wheel" else Mushrooms.drawn(steps, seed)


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Let the agents of a method play all trials of a problem, side by side."""
    problem, method = str(piece["problem"]), str(piece["method"])
    config = config.of(problem)
    learning = AgentLearning(**{f.name: getattr(config, f.name) for f in fields(AgentLearning)})
    rule: ActionRule = "greedy" if method == "greedy" else "thompson"
    trials = range(1, config.trials + 1)
    length = config.interactions + 5 * config.pulls
    world = SideBySide.of(
        [stream(problem, length, (seed.common + trial) % 2**62) for trial in trials]
    )
    players = agents(
        KINDS[method], world, learning, [rule] * len(trials), [0.0] * len(trials),
        [(seed.own + trial) % 2**62 for trial in trials], joint=False, own_contexts=True,
    )  # fmt: skip
    start = world.actions * config.pulls
    steps = range(start, start + config.interactions)
    begin(players, world, start, seed.common % 2**62)
    actions = play(players, world, steps, config.every)  # (M, T)
    regrets = world.regrets[:, start : steps.stop]
    regret = regrets.gather(2, actions[..., None]).sum((1, 2))
    uniform = regrets.mean(2).sum(1)
    for trial, own, other in zip(trials, regret.tolist(), uniform.tolist(), strict=True):
        yield {
            "metric": "relative regret", "trial": trial, "value": 100 * own / other,
            "regret": own, "uniform": other,
        }  # fmt: skip


COMPUTATION = Computation(
    protocol="The bandits of Riquelme et al. 2018: mushrooms (117 columns, one-hot) and the "
        "wheel. An agent starts with three random choices of each action, then sees 2,000 "
        "contexts. Its network has two hidden layers of 100 ReLU units and one output per "
        "action; after every 10 contexts there are 20 Adam steps on the data so far. Thompson "
        "sampling draws 32 functions for 10 contexts and chooses actions in proportion to how "
        "often they are the best. NeuralLinear has an exact posterior for its last layer, the "
        "linear agent for its only layer. Settings are the same for all methods and problems and "
        "were not tuned. Every trial has its own stream and agent; regret is relative to "
        "expected rewards, in percent of that of uniform actions. Long streams have 80,000 "
        "contexts, with 80 steps after every 400.",
    scales={
        "smoke": Config(
            problems=("mushroom", "wheel 0.5"), trials=2, interactions=40, steps=2, hidden=8,
            members=2, functions=4, long_problems=("long wheel 0.95",), long_trials=1,
            long_interactions=80, long_every=40, long_steps=2,
        ),
        "small": Config(long_problems=("long wheel 0.95",)),
        "paper": Config(trials=50, long_trials=50),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "Riquelme et al. train with RMSProp on batches of 512, with separate settings for "
            "each method and problem; here all methods have the same settings.",
        "Published values come from several papers, whose numbers of steps and trials differ.",
    ),
)  # fmt: skip
