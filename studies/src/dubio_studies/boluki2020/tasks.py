"""What recommenders are trained, validated and tested on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dubio import data, recommend

Pair: TypeAlias = tuple[csr_array, csr_array]

LIANG = ("recall@20", "recall@50", "ndcg@100")
LIGHTGCN = ("recall_all@20", "ndcg@20")
DEPTH = 100  # items of each user that are ranked


@final
@dataclass(frozen=True, eq=False)
class Task:
    """Users whose items are to be found; all matrices are users × items.

    Attributes:
        train: To fit a model.
        validation: What it is shown of other users, or of the same, and what it should find.
        test: The same for the test.
        whole: Training and validation together, to fit again on, if the users are the same;
            None if the test users are new.
        items: Of each column, the number of the item in the data set.
        metrics: Those of the papers with this split; the last is the one that counts.
    """

    train: csr_array
    validation: Pair
    test: Pair
    whole: csr_array | None
    items: npt.NDArray[np.int64]
    metrics: tuple[str, ...]


def load(name: str, seed: int) -> Task:
    """A data set by name; the split is a function of the seed where there is none to be had."""
    if name in _BY_USERS:
        read, validation, test = _BY_USERS[name]
        matrix, items = read()
        return by_users(matrix, items, validation, test, seed)
    metrics = (*LIGHTGCN, "ndcg@10") if name == "movielens-1m-infinite-ae" else LIGHTGCN
    return by_split(*_SPLITS[name](), metrics, seed)


def by_users(
    matrix: csr_array, items: npt.NDArray[np.int64], validation: int, test: int, seed: int
) -> Task:
    """New users at the test (Liang et al. 2018): a fifth of their items is to be found."""
    parts = recommend.by_users(matrix, validation, test, held_out=0.2, at_least=5, seed=seed)
    return Task(parts.train, parts.validation, parts.test, None, items[parts.items], LIANG)


def by_split(
    train: csr_array,
    validation: csr_array | None,
    test: csr_array,
    metrics: tuple[str, ...],
    seed: int,
) -> Task:
    """The same users at the test, in a split that was published.

    Without a validation part a tenth of the training interactions is held back for it.
    """
    if validation is None:
        train, validation = hold_back(train, 0.1, seed)
    whole = csr_array(train + validation)
    items = np.arange(train.shape[1])
    return Task(train, (train, validation), (whole, test), whole, items, metrics)


def hold_back(train: csr_array, share: float, seed: int) -> Pair:
    """Most interactions, and a random share of all; nobody is left without any."""
    row = np.repeat(np.arange(train.shape[0]), np.diff(train.indptr))
    held = np.random.default_rng(seed).random(train.nnz) < share
    left = np.bincount(row[~held], minlength=train.shape[0])
    held &= left[row] > 0

    def part(which: npt.NDArray[np.bool_]) -> csr_array:
        return _matrix(row[which], train.indices[which], *train.shape)

    return part(~held), part(held)


def tastes(seed: int, users: int = 240, items: int = 60) -> csr_array:
    """Users of four tastes, each of which likes a quarter of the items: data for tests."""
    rng = np.random.default_rng(seed)
    liked = np.arange(items) % 4 == rng.integers(4, size=users)[:, None]
    popular = 0.4 + 0.6 * rng.random(items)
    return csr_array((rng.random((users, items)) < popular * np.where(liked, 0.6, 0.1)) * 1.0)


def _tastes() -> tuple[csr_array, npt.NDArray[np.int64]]:
    found = tastes(0)
    return found, np.arange(found.shape[1])


def _tastes_split() -> tuple[csr_array, None, csr_array]:
    parts = recommend.by_ratio(tastes(1), 0.0, 0.2, seed=0)
    return parts.train, None, parts.test_held_out


def _liked(ratings: Any) -> tuple[csr_array, npt.NDArray[np.int64]]:
    """Ratings of 4 and 5, in the order of the numbers of users and items."""
    liked = ratings.liked.numpy().astype(bool)
    users, row = np.unique(ratings.user.numpy()[liked], return_inverse=True)
    items, column = np.unique(ratings.item.numpy()[liked], return_inverse=True)
    return _matrix(row, column, len(users), len(items)), items


def _songs() -> tuple[csr_array, npt.NDArray[np.int64]]:
    """Songs with 200 listeners or more, then users with 20 songs or more (Liang et al. 2018)."""
    plays = data.million_song()
    matrix = _matrix(plays.user.numpy(), plays.song.numpy(), len(plays.users), len(plays.songs))
    items = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= 200)
    kept = csr_array(matrix[:, items])
    return csr_array(kept[np.diff(kept.indptr) >= 20]), items


def _matrix(row: Any, column: Any, users: int, items: int) -> csr_array:
    """Ones at these places."""
    return csr_array((np.ones(len(row), np.float32), (row, column)), shape=(users, items))


def _published(split: Any) -> tuple[csr_array, csr_array | None, csr_array]:
    return split.train, split.validation, split.test


_BY_USERS: dict[
    str, tuple[Callable[[], tuple[csr_array, npt.NDArray[np.int64]]], int, int]
] = {  # reader, users of the validation and of the test
    "tastes": (_tastes, 40, 60),
    "movielens-1m": (lambda: _liked(data.movielens("1m")), 500, 1000),
    "ml-20m": (lambda: _liked(data.movielens("20m")), 10_000, 10_000),
    "netflix": (lambda: _liked(data.netflix()), 40_000, 40_000),
    "msd": (_songs, 50_000, 50_000),
}
_SPLITS: dict[str, Callable[[], tuple[csr_array, csr_array | None, csr_array]]] = {
    "tastes-split": _tastes_split,
    "movielens-1m-diffrec": lambda: _published(data.movielens_diffrec()),
    "movielens-1m-infinite-ae": lambda: _published(data.movielens_infinite_ae()),
    "gowalla": lambda: _published(data.gowalla()),
    "yelp2018": lambda: _published(data.yelp2018()),
}
NEW_USERS = tuple(_BY_USERS)
NAMES = (*_BY_USERS, *_SPLITS)
