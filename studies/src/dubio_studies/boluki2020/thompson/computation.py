"""Cumulative rewards of recommenders that explore or do not, in a simulated feedback loop."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np

from dubio.recommend import Popular, Recommender
from dubio_studies.boluki2020.table_2 import methods
from dubio_studies.boluki2020.table_2.methods import AutoencoderTraining
from dubio_studies.boluki2020.table_2.ranking import group_means, mean_and_error
from dubio_studies.boluki2020.thompson.world import Offered, Policy, Source, World, load, play
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

MODELS = ("sivae-lbdrop", "vae-drop")


@dataclass(frozen=True)
class Config(AutoencoderTraining):
    """Settings of the loop.

    Attributes:
        source: movielens-1m; or tastes, which is made up.
        restarts: Networks of each model, which differ in initial weights and noise.
        rounds: Rounds of recommendations for every user.
        n: Items in a round.
        start: Liked items known at the start.
        draws: Of the noise for means and upper bounds.
        width: Of the upper bound, in standard deviations.
    """

    source: Source = "movielens-1m"
    restarts: int = 3
    rounds: int = 20
    n: int = 5
    start: int = 2
    draws: int = 20
    width: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if (lowest := min(self.restarts, self.rounds, self.n, self.epochs)) < 1:
            raise ValueError(f"restarts, rounds, n, epochs: expected at least 1, got {lowest}.")
        if self.draws < 2:
            raise ValueError(f"draws: expected at least 2, got {self.draws}.")
        if self.start < 0:
            raise ValueError(f"start: expected 0 or more, got {self.start}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each model and restart, and one for the most popular items."""
    trained: list[Piece] = [
        {"method": method, "restart": restart}
        for restart in range(1, config.restarts + 1)
        for method in MODELS
    ]
    return [*trained, {"method": "popular", "restart": 1}]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Fit a model, and let every policy recommend."""
    method = str(piece["method"])
    world = load(config.source, config.start, seed.common)
    if method == "popular":
        popular = Popular().fit(world.task.train)
        yield from played(config, popular, world, "mean", seed)
        return
    model = methods.fit(method, world.task, config, seed.own).model
    for policy in get_args(Policy):
        yield from played(config, model, world, policy, seed)


def played(
    config: Config, model: Recommender, world: World, policy: Policy, seed: Seed
) -> Iterator[Measurement]:
    """Mean cumulative rewards of users by round, and of groups of users at the end."""
    for choice in get_args(Offered):
        rewards = play(
            model, world, policy, choice, rounds=config.rounds, n=config.n, draws=config.draws,
            width=config.width, seed=seed.own,
        )  # fmt: skip
        total = rewards.cumsum(0).astype(np.float64)  # (rounds, users)
        fields = {"policy": policy, "choice": choice}
        for step, values in enumerate(total, start=1):
            mean, error = mean_and_error(values)
            yield {**fields, "metric": "reward", "round": step, "value": mean, "error": error}
        yield {**fields, "metric": "groups", "value": group_means(total[-1])}


COMPUTATION = Computation(
    protocol="A recommender is fitted to the training users of MovieLens 1M with Liang's "
        "protocol, as in table 2. For 1000 other users it knows two liked films each. In every "
        "round each user gets five films not shown before; a film that the user has rated 4 or 5 "
        "gives a reward of 1 and joins the history. Ratings are those of the data set. The "
        "recommender is not refitted: only histories grow. It ranks by the mean over draws, by "
        "mean + spread (upper bound), or by a single draw for each user and round (Thompson "
        "sampling). In one variant all films can be recommended, and those without a rating give "
        "no reward; in the other only films that the user has rated, so every reward is known. "
        "The claim and its rule were written before the run.",
    scales={
        "smoke": Config(
            source="tastes", restarts=1, rounds=4, n=2, draws=4, hidden=12, latent=6, epochs=3,
            batch_size=60,
        ),
        "small": Config(restarts=1, epochs=60, patience=12, batch_size=250, learning_rate=2e-3),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "The paper has no such experiment.",
        "Users did not choose their films from these recommendations: they might like a film "
            "without a rating. Rated films are mostly popular ones.",
    ),
)  # fmt: skip
