"""Interactions of users and items, in the splits of papers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from dubio.data.archives import read_bytes
from dubio.data.dataset import Copy, Dataset, Form, Loaded
from dubio.data.errors import DataError, extra
from dubio.data.ratings import movielens
from dubio.data.registry import published

Array: TypeAlias = npt.NDArray[Any]


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class UserItems(Loaded):
    """Interactions without a split.

    Attributes:
        user_items: ``scipy.sparse.csr_array`` of float32 ones, users × items.
    """

    user_items: Any


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class UserItemSplit(Loaded):
    """Interactions with some held out for each user; all parts are users × items.

    Attributes:
        train: ``scipy.sparse.csr_array`` of float32 ones.
        validation: The interactions held out for validation; None if there are none.
        test: The interactions held out for the test.
    """

    train: Any
    validation: Any
    test: Any


def _lightgcn(name: str, title: str, licence: str, cite: str) -> Dataset:
    files = tuple(published(f"{name}/{part}.txt") for part in ("train", "test"))
    return Dataset(
        name=name,
        title=title,
        licence=licence,
        cite=cite,
        page="https://github.com/gusye1234/LightGCN-PyTorch",
        forms=(
            Form(
                "original text files",
                files,
                by_hand=f"put train.txt and test.txt of LightGCN's data/{name} into {name}/",
            ),
            Form("matrices in one npz", (published(f"{name}/{name}.npz"),)),
        ),
    )


_GOWALLA = _lightgcn(
    "gowalla",
    "Gowalla, the split of LightGCN",
    "none stated: cite",
    "Cho, Myers & Leskovec 2011; Wang et al. 2019; He et al. 2020",
)
_YELP = _lightgcn(
    "yelp2018",
    "Yelp 2018, the split of LightGCN",
    "Yelp: academic use, do NOT redistribute",
    "Wang et al. 2019; He et al. 2020",
)
_GROUPLENS = "GroupLens: research use, acknowledge, do NOT redistribute"
_DIFFREC = Dataset(
    name="movielens-1m-diffrec",
    title="MovieLens 1M, the split of DiffRec",
    licence=_GROUPLENS,
    cite="Harper & Konstan 2015; Wang et al. 2023",
    page="https://github.com/YiyanXu/DiffRec",
    forms=(
        Form(
            "lists of pairs gathered in one npz",
            (published("movielens-1m-diffrec/ml1m_diffrec_clean.npz"),),
            by_hand="split movielens('1m') by time yourself: dubio.recommend.by_time",
        ),
    ),
)
_INFINITE_AE = Dataset(
    name="movielens-1m-infinite-ae",
    title="MovieLens 1M, the split of infinite-AE",
    licence="MIT (labels alone)",
    cite="Harper & Konstan 2015; Sachdeva et al. 2022",
    page="https://github.com/noveens/infinite_ae_cf",
    forms=(
        Form(
            "the part of each rating as a small integer in one npz",
            (published("movielens-1m-infinite-ae/ml1m_part.npz"),),
            by_hand="split movielens('1m') yourself: dubio.recommend.by_ratio",
        ),
    ),
)
_CITEULIKE = Dataset(
    name="citeulike-a",
    title="CiteULike-a",
    licence="none stated: cite",
    cite="Wang & Blei 2011; Wang, Chen & Li 2013",
    page="https://github.com/js05212/citeulike-a",
    forms=(
        Form(
            "original text file",
            (published("citeulike-a/users.dat"),),
            by_hand="put users.dat of js05212/citeulike-a into citeulike-a/",
        ),
        Form("a matrix in one npz", (published("citeulike-a/citeulike_a.npz"),)),
    ),
)
DATASETS = (_GOWALLA, _YELP, _DIFFREC, _INFINITE_AE, _CITEULIKE)


def gowalla() -> UserItemSplit:
    """Load check-ins of 29,858 users at 40,981 places, in the split of LightGCN (He et al. 2020).

    Users and places have at least 10 check-ins; a fifth of each user's places is the test.
    """
    return _read_lightgcn(_GOWALLA)


def yelp2018() -> UserItemSplit:
    """Load reviews of 38,048 businesses by 31,668 users, in the split of LightGCN."""
    return _read_lightgcn(_YELP)


def movielens_diffrec() -> UserItemSplit:
    """Load MovieLens 1M, ratings of 4 and 5, split by time within each user (Wang et al. 2023).

    It has 5949 users and 2810 items, without their GroupLens numbers.
    """
    copy = _DIFFREC.locate()
    train, validation, test = _from_npz(copy.paths[0], ("train_", "valid_", "test_"))
    return UserItemSplit(source=copy.source, train=train, validation=validation, test=test)


def movielens_infinite_ae() -> UserItemSplit:
    """Load MovieLens 1M, all ratings, split 80:10:10 at random per user (Sachdeva et al. 2022).

    Rows and columns are the 6040 users and 3706 rated films in the order of their numbers.
    """
    copy = _INFINITE_AE.locate()
    ratings = movielens("1m")
    with np.load(copy.paths[0]) as arrays:
        part = arrays["part"]
    if part.shape != (len(ratings.user),):
        raise DataError(
            f"{copy.paths[0]}: expected a part for each of {len(ratings.user)} ratings, got "
            f"{part.shape}; get both files again"
        )
    users, row = np.unique(ratings.user.numpy(), return_inverse=True)
    items, column = np.unique(ratings.item.numpy(), return_inverse=True)
    train, validation, test = (
        _matrix(row[part == which], column[part == which], (len(users), len(items)))
        for which in range(3)
    )
    source = f"{copy.source}; {ratings.source}"
    return UserItemSplit(source=source, train=train, validation=validation, test=test)


def citeulike_a() -> UserItems:
    """Load the libraries of 5551 users with 16,980 articles; there is no split."""
    copy = _CITEULIKE.locate()
    path = copy.paths[0]
    if path.suffix == ".npz":
        (found,) = _from_npz(path, ("",))
    else:
        rows = _integers(path)
        (found,) = _from_rows([{row: line[1:] for row, line in enumerate(rows)}], len(rows))
    return UserItems(source=copy.source, user_items=found)


def _read_lightgcn(dataset: Dataset) -> UserItemSplit:
    copy = dataset.locate()
    train, test = _lightgcn_matrices(copy)
    return UserItemSplit(source=copy.source, train=train, validation=None, test=test)


def _lightgcn_matrices(copy: Copy) -> Sequence[Any]:
    if copy.paths[0].suffix == ".npz":
        return _from_npz(copy.paths[0], ("train_", "test_"))
    parts = [{line[0]: line[1:] for line in _integers(path) if line} for path in copy.paths]
    return _from_rows(parts, 1 + max(user for part in parts for user in part))


def _integers(path: Path) -> list[list[int]]:
    """Read lines of integers."""
    try:
        return [[int(word) for word in line.split()] for line in read_bytes(path).splitlines()]
    except ValueError as error:
        raise DataError(f"{path}: expected lines of integers, got {error}; get it again") from error


def _from_rows(parts: Sequence[dict[int, list[int]]], users: int) -> list[Any]:
    """Return matrices of the same shape from the items of each user."""
    items = 1 + max(item for part in parts for row in part.values() for item in row)
    return [
        _matrix(
            np.array([user for user, row in part.items() for _ in row]),
            np.array([item for row in part.values() for item in row]),
            (users, items),
        )
        for part in parts
    ]


def _from_npz(path: Path, parts: tuple[str, ...]) -> list[Any]:
    """CSR matrices of one shape: ``<part>indptr``, ``<part>indices`` and ``shape``."""
    with np.load(path) as arrays:
        shape = tuple(arrays["shape"].tolist())
        return [_csr(arrays[f"{part}indices"], arrays[f"{part}indptr"], shape) for part in parts]


def _csr(indices: Array, indptr: Array, shape: tuple[int, ...]) -> Any:
    ones = np.ones(len(indices), np.float32)
    return extra("scipy.sparse").csr_array((ones, indices.astype(np.int32), indptr), shape=shape)


def _matrix(row: Array, column: Array, shape: tuple[int, int]) -> Any:
    order = np.lexsort((column, row))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
    return _csr(column[order], indptr.astype(np.int32), shape)
