"""External ids of users and items, and data frames of interactions."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

Array: TypeAlias = npt.NDArray[Any]

_NAMED = 5  # ids that an error names


@final
class Ids:
    """Different ids, any hashable, and their positions 0, 1, ….

    Args:
        ids: In the order of their positions.
        what: What they are ids of, for errors.
    """

    def __init__(self, ids: Iterable[Hashable], what: str = "id") -> None:
        self._ids = tuple(ids)
        self._what = what
        if len(self._positions) != len(self._ids):
            raise ValueError(
                f"{what}s: expected different ids, got {len(self._ids)} of which "
                f"{len(self._positions)} are different; name each once"
            )

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._ids)

    def __contains__(self, one: object) -> bool:
        return one in self._positions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and self._ids == other._ids

    def __hash__(self) -> int:
        return hash(self._ids)

    def __repr__(self) -> str:
        return f"Ids({len(self)} {self._what}s)"

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {one: position for position, one in enumerate(self._ids)}

    def positions(self, ids: Iterable[Hashable]) -> npt.NDArray[np.int64]:
        """Where the ids are. Unknown ids are an error."""
        wanted = list(ids)
        found = [self._positions.get(one, -1) for one in wanted]
        unknown = dict.fromkeys(one for one, place in zip(wanted, found, strict=True) if place < 0)
        if unknown:
            first = ", ".join(repr(one) for one in list(unknown)[:_NAMED])
            more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
            raise KeyError(
                f"{self._what}s: expected ids of the catalogue, got {first}{more}, which are not "
                "in it; leave them out"
            )
        return np.array(found, np.int64)

    def ids(self, positions: npt.ArrayLike) -> list[Hashable]:
        """The ids at these positions."""
        places = np.asarray(positions, np.int64)
        wrong = (places < 0) | (places >= len(self))
        if wrong.any():
            raise IndexError(
                f"{self._what}s: expected positions from 0 to {len(self) - 1}, got "
                f"{places[wrong][:_NAMED].tolist()}; leave out what was not found (id −1)"
            )
        return [self._ids[place] for place in places]


@final
@dataclass(frozen=True)
class Catalogue:
    """The external ids of users and items.

    Attributes:
        users: Of the rows of a matrix.
        items: Of its columns.
    """

    users: Ids
    items: Ids


@final
@dataclass(frozen=True, eq=False)
class Interactions:
    """Who had to do with what.

    Attributes:
        user_items: Users × items, binary CSR.
        catalogue: What rows and columns stand for.
        times: When it happened first, (nnz,), in the order of ``user_items.indices``; None if no
            times were given.
    """

    user_items: csr_array
    catalogue: Catalogue
    times: Array | None


def from_frame(
    frame: Any,
    user: str = "user",
    item: str = "item",
    rating: str | None = None,
    at_least: float | None = None,
    time: str | None = None,
    items: Ids | None = None,
) -> Interactions:
    """Interactions from a table with a row for each.

    Args:
        frame: A pandas data frame, or anything else with columns by name: ``frame["user"]``.
        user: The column with ids of users.
        item: The column with ids of items.
        rating: The column with ratings.
        at_least: Rows with a lower rating, or none, are left out.
        time: The column with times, numbers or dates; dates become seconds since 1970.
        items: Items that are known already, such as ``model.catalogue.items``; others are an
            error. Without it items are numbered as they come, and so are users.
    """
    if (rating is None) != (at_least is None):
        raise ValueError(
            "at_least: expected a rating and its least value together, got one of them; "
            "from_frame(frame, rating='rating', at_least=4)"
        )
    who, what = _column(frame, user), _column(frame, item)
    kept = np.ones(len(who), bool)
    if rating is not None:
        kept = _column(frame, rating).astype(float) >= at_least
    when = None if time is None else _seconds(_column(frame, time))[kept]
    row, users = _numbered(who[kept], "user")
    if items is None:
        column, items = _numbered(what[kept], "item")
    else:
        column = items.positions(what[kept].tolist())
    matrix, first = _matrix(row, column, (len(users), len(items)), when)
    return Interactions(matrix, Catalogue(users, items), None if when is None else when[first])


def _matrix(
    row: npt.NDArray[np.int64],
    column: npt.NDArray[np.int64],
    shape: tuple[int, int],
    when: Array | None,
) -> tuple[csr_array, npt.NDArray[np.int64]]:
    """The binary matrix, and for each entry the row of the table that came first in time."""
    keys = (column, row) if when is None else (when, column, row)
    order = np.lexsort(keys)
    row, column = row[order], column[order]
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    counts = np.bincount(row[new], minlength=shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ones = np.ones(int(new.sum()), np.float32)
    return csr_array((ones, column[new], indptr), shape=shape), order[new]


def _numbered(ids: Array, what: str) -> tuple[npt.NDArray[np.int64], Ids]:
    """Positions of all ids, and the different ones in the order in which they come."""
    if ids.dtype.kind in "iu":
        different, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.argsort(order)
        return rank[inverse].astype(np.int64), Ids(different[order].tolist(), what)
    wanted = ids.tolist()
    missing = [one for one in wanted if one is None or one != one]
    if missing:
        raise ValueError(
            f"{what}: expected an id in every row, got {len(missing)} empty ones; drop these rows"
        )
    known = Ids(dict.fromkeys(wanted), what)
    return known.positions(wanted), known


def _column(frame: Any, name: str) -> Array:
    try:
        column = frame[name]
    except (KeyError, ValueError, IndexError) as error:
        names = list(getattr(frame, "columns", getattr(frame, "keys", list)()))
        raise KeyError(
            f"{name}: expected a column of this name, got {names}; name the columns: "
            "from_frame(frame, user=…, item=…)"
        ) from error
    if str(getattr(column, "dtype", "")).startswith("datetime64[") and hasattr(column, "dt"):
        return np.asarray(column.to_numpy(dtype="datetime64[ns]"))
    return np.asarray(column)


def _seconds(times: Array) -> Array:
    if times.dtype.kind == "M" and not np.isnat(times).any():
        return times.astype("datetime64[s]").astype(np.int64)
    if times.dtype.kind not in "iuf" or not np.isfinite(times).all():
        raise ValueError(
            f"time: expected numbers or dates without gaps, got {times.dtype}; convert them: "
            "pandas.to_datetime"
        )
    return times
