"""Users whose ratings are known to us and not to the recommender."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dubio.data import movielens
from dubio.recommend import Recommender, by_users
from dubio_studies.boluki2020.tasks import LIANG, Task, tastes

Source: TypeAlias = Literal["movielens-1m", "tastes"]
Offered: TypeAlias = Literal["all items", "rated items"]
Policy: TypeAlias = Literal["mean", "thompson", "upper"]


@final
@dataclass(frozen=True, eq=False)
class World:
    """A recommender's training, and users who come after it; all matrices are users × items.

    Attributes:
        task: Training and validation.
        liked: What the new users like.
        rated: What they have rated, also if they do not like it.
        start: The part of their likes that is known at the beginning.
    """

    task: Task
    liked: csr_array
    rated: csr_array
    start: csr_array


def load(source: Source, start: int, seed: int) -> World:
    """New users of a data set, each with a few likes at random to begin with."""
    liked, rated = _movielens() if source == "movielens-1m" else _tastes()
    users = (500, 1000) if source == "movielens-1m" else (40, 60)
    parts = by_users(liked, *users, seed=seed)
    whole = csr_array(parts.test_fold_in + parts.test_held_out)
    others = csr_array(rated[parts.test_users][:, parts.items])
    task = Task(parts.train, parts.validation, parts.test, None, parts.items, LIANG)
    return World(task, whole, others, some_of(whole, start, np.random.default_rng(seed)))


def some_of(matrix: csr_array, count: int, rng: np.random.Generator) -> csr_array:
    """At most so many entries of each row, at random."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((rng.random(matrix.nnz), row))
    first = (np.arange(matrix.nnz) - matrix.indptr[row]) < count
    chosen = order[first]
    return _pairs(row[chosen], matrix.indices[chosen], matrix.shape)


def play(
    model: Recommender,
    world: World,
    policy: Policy,
    choice: Offered,
    *,
    rounds: int,
    n: int,
    draws: int,
    width: float,
    seed: int,
) -> npt.NDArray[np.int64]:
    """Recommend n items to every user in each round; what is liked joins the history.

    The model is not fitted again: it learns of a user only what is in the history. Nothing is
    recommended twice.

    Args:
        model: Fitted.
        world: The users.
        policy: What to rank by; see `Recommender.recommend`.
        choice: Whether all items can be recommended, where those without a rating are no reward,
            or only those that the user has rated, of which the reward is known.
        rounds: How often.
        n: Recommendations in a round.
        draws: Of the noise, but for Thompson sampling, which has one.
        width: Of the upper bound.
        seed: Of the noise.

    Returns:
        Rewards, the number of liked items, (rounds, users).
    """
    users = world.liked.shape[0]
    history, shown = world.start, world.start
    closed = None if choice == "all items" else _without(world.rated)
    rewards = np.zeros((rounds, users), np.int64)
    for step in range(rounds):
        found = model.recommend(
            history,
            n,
            exclude=shown if closed is None else csr_array(shown + closed),
            explore=policy,
            draws=draws,
            width=width,
            generator=seed + step,
            users=np.arange(users),
        )
        row, column = np.nonzero(found.found)
        given = _pairs(row, found.ids[row, column], world.liked.shape)
        hits = csr_array(given.multiply(world.liked))
        rewards[step] = np.diff(hits.indptr)
        history, shown = csr_array(history + hits), csr_array(shown + given)
    return rewards


def _without(rated: csr_array) -> csr_array:
    """All other pairs."""
    return csr_array(np.asarray(rated.toarray() == 0, np.float32))


def _movielens() -> tuple[csr_array, csr_array]:
    """Ratings of 4 and 5, and all ratings."""
    ratings = movielens("1m")
    users, row = np.unique(ratings.user.numpy(), return_inverse=True)
    items, column = np.unique(ratings.item.numpy(), return_inverse=True)
    liked = ratings.liked.numpy().astype(bool)
    shape = len(users), len(items)
    return _pairs(row[liked], column[liked], shape), _pairs(row, column, shape)


def _tastes() -> tuple[csr_array, csr_array]:
    liked = tastes(0)
    other = np.random.default_rng(1).random(liked.shape) < 0.3
    return liked, csr_array(np.maximum(liked.toarray(), other))


def _pairs(row: Any, column: Any, shape: tuple[int, int]) -> csr_array:
    """A matrix of ones, with its entries in order."""
    found = csr_array((np.ones(len(row), np.float32), (row, column)), shape=shape)
    found.sum_duplicates()
    return found
