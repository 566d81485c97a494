"""MovieLens: users' ratings of films."""

from dataclasses import dataclass
from io import BytesIO
from typing import Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dubio.data.archives import open_archive, read_bytes
from dubio.data.dataset import Dataset, Form, Loaded
from dubio.data.registry import published


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ratings(Loaded):
    """Ratings of items by users, with the original numbers and in the original order.

    Attributes:
        user: (N,).
        item: (N,).
        liked: (N,) int8, 1 where the rating is above 3.5, 0 otherwise.
        rating: (N,) float32.
        timestamp: (N,) seconds since 1970.
    """

    user: Tensor
    item: Tensor
    liked: Tensor
    rating: Tensor
    timestamp: Tensor


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HeldOutUsers(Loaded):
    """A split by users: models see no test user before the test.

    Of a held-out user, 80 % of the liked items are shown (fold-in), and the rest are to be found.
    Pairs are (user, item), (N, 2), positions in ``users`` and ``items``, which hold GroupLens'
    numbers.
    """

    train: Tensor
    validation_fold_in: Tensor
    validation_held_out: Tensor
    test_fold_in: Tensor
    test_held_out: Tensor
    users: Tensor  # (6034,)
    items: Tensor  # (3459,)


class Movie(NamedTuple):
    """A film of MovieLens."""

    item: int
    title: str
    genres: tuple[str, ...]


class User(NamedTuple):
    """A user of MovieLens; the age is the lower end of a bracket, the occupation a number."""

    user: int
    gender: str
    age: int
    occupation: int
    zip_code: str


def _movielens(name: str, title: str, forms: tuple[Form, ...]) -> Dataset:
    return Dataset(
        name=name,
        title=title,
        licence="GroupLens: research use, acknowledge, do NOT redistribute",
        cite="Harper & Konstan 2015",
        page="https://grouplens.org/datasets/movielens/",
        forms=forms,
    )


def _archive(size: str) -> Form:
    return Form("original archive", (published(f"movielens-{size}/ml-{size}.zip"),))


_DATASETS = {
    "100k": _movielens(
        "movielens-100k",
        "MovieLens 100K",
        (
            _archive("100k"),
            Form("gzip of u.data, restored", (published("movielens-100k/u.data.gz"),)),
        ),
    ),
    "1m": _movielens("movielens-1m", "MovieLens 1M", (_archive("1m"),)),
    "20m": _movielens("movielens-20m", "MovieLens 20M", (_archive("20m"),)),
}
_SPLIT = _movielens(
    "movielens-1m-split",
    "MovieLens 1M, a split by users",
    (
        Form(
            "csv files gathered in one npz",
            (published("movielens-1m/ml1m_pro_sg.npz"),),
            by_hand="split the users of movielens('1m') after Liang et al. 2018 instead",
        ),
    ),
)
DATASETS = (*_DATASETS.values(), _SPLIT)
_MEMBERS = {
    "100k": ("ml-100k/u.data", b"\t"),
    "1m": ("ml-1m/ratings.dat", b"::"),
    "20m": ("ml-20m/ratings.csv", b","),
}


def movielens(size: Literal["100k", "1m", "20m"]) -> Ratings:
    """Load 100,000 ratings of 943 users, 1,000,209 of 6040, or 20,000,263 of 138,493."""
    if size not in _DATASETS:
        raise ValueError(f"size: expected one of {', '.join(_DATASETS)}, got {size!r}")
    copy = _DATASETS[size].locate()
    path = copy.paths[0]
    member, delimiter = _MEMBERS[size]
    if path.suffix == ".zip":
        with open_archive(path) as archive:
            text = archive.read(member)
    else:
        text = read_bytes(path)
    return _parse(text, delimiter, copy.source)


def movielens_split() -> HeldOutUsers:
    """Load MovieLens 1M split by users, after Liang et al. 2018, for strong generalisation.

    It holds ratings above 3.5 of users with at least five of them, for items that a training user
    liked. The 1000 + 1000 held-out users are the last by number: unlike Liang et al., the
    preparation did not shuffle them.
    """
    copy = _SPLIT.locate()
    with np.load(copy.paths[0]) as arrays:
        tensors = {key: torch.from_numpy(arrays[key]).long() for key in arrays}
    return HeldOutUsers(
        source=copy.source,
        train=tensors["train"],
        validation_fold_in=tensors["validation_tr"],
        validation_held_out=tensors["validation_te"],
        test_fold_in=tensors["test_tr"],
        test_held_out=tensors["test_te"],
        users=tensors["unique_uid"],
        items=tensors["unique_sid"],
    )


def movielens_movies() -> tuple[Movie, ...]:
    """Load the 3883 films of MovieLens 1M."""
    return tuple(
        Movie(int(item), title, tuple(genres.split("|")))
        for item, title, genres in _side_rows("movies")
    )


def movielens_users() -> tuple[User, ...]:
    """Load the 6040 users of MovieLens 1M."""
    return tuple(
        User(int(user), gender, int(age), int(occupation), zip_code)
        for user, gender, age, occupation, zip_code in _side_rows("users")
    )


def _side_rows(kind: str) -> list[list[str]]:
    with open_archive(_DATASETS["1m"].locate().paths[0]) as archive:
        text = archive.read(f"ml-1m/{kind}.dat")
    return [line.split("::") for line in text.decode("latin-1").splitlines()]


def _parse(text: bytes, delimiter: bytes, source: str) -> Ratings:
    header = int(not text[:1].isdigit())
    lines = BytesIO(text.replace(delimiter, b","))
    table: npt.NDArray[np.float64] = np.loadtxt(lines, delimiter=",", skiprows=header)
    user, item, rating, timestamp = torch.from_numpy(table).unbind(1)
    return Ratings(
        source=source,
        user=user.long(),
        item=item.long(),
        liked=(rating > 3.5).to(torch.int8),
        rating=rating.float(),
        timestamp=timestamp.long(),
    )
