"""Interactions from tables, such as data frames."""

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dubio.recommend.arguments import number, one_of
from dubio.recommend.catalogue import Catalogue, Ids, Interactions
from dubio.recommend.times import check_times

Array: TypeAlias = npt.NDArray[Any]
Unknown: TypeAlias = Literal["error", "skip"]


def from_frame(
    frame: Any,
    user: str = "user",
    item: str = "item",
    rating: str | None = None,
    at_least: float | None = None,
    time: str | None = None,
    items: Ids | None = None,
    users: Ids | None = None,
    unknown: Unknown = "error",
) -> Interactions:
    """Read interactions from a table with one row for each.

    Args:
        frame: A pandas data frame, or anything else with columns by name: ``frame["user"]``.
        user: The column with ids of users.
        item: The column with ids of items.
        rating: The column with ratings.
        at_least: Rows with a lower rating, or none, are left out.
        time: The column with times, numbers or dates. Dates are kept in full, in UTC.
        items: Known items, such as ``model.catalogue.items``. By default items are numbered in
            order of appearance.
        users: Known users. By default users are numbered in order of appearance.
        unknown: What to do with rows of unknown users or items: ``"error"``, or ``"skip"``. A user
            with only unknown items then has an empty history.
    """
    one_of("error", "skip")("unknown", unknown)
    if (rating is None) != (at_least is None):
        raise ValueError(
            "at_least: expected a rating and its least value together, got one of them; "
            "from_frame(frame, rating='rating', at_least=4)"
        )
    columns = {name: _column(frame, name) for name in (user, item, rating, time) if name}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"frame: expected columns of one length, got {lengths}; give each a value in every row"
        )
    if rating is not None:
        number(advice="give the least rating that counts")("at_least", at_least)
        kept = columns[rating].astype(float) >= at_least
        columns = {name: column[kept] for name, column in columns.items()}
    if time is not None:
        check_times(columns[time], "time")
    row, rows = _positions(columns[user], users, "user", unknown)
    column, names = _positions(columns[item], items, "item", unknown)
    known = (row >= 0) & (column >= 0)
    when = None if time is None else columns[time][known]
    matrix, first = _matrix(row[known], column[known], (len(rows), len(names)), when)
    return Interactions(matrix, Catalogue(rows, names), None if when is None else when[first])


def _matrix(
    row: npt.NDArray[np.int64],
    column: npt.NDArray[np.int64],
    shape: tuple[int, int],
    when: Array | None,
) -> tuple[csr_array, npt.NDArray[np.int64]]:
    """Return the binary matrix, and for each entry the row of the table that came first in time."""
    keys = (column, row) if when is None else (when, column, row)
    order = np.lexsort(keys)
    row, column = row[order], column[order]
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    counts = np.bincount(row[new], minlength=shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ones = np.ones(int(new.sum()), np.float32)
    return csr_array((ones, column[new], indptr), shape=shape), order[new]


def _positions(
    given: Array, known: Ids | None, what: str, unknown: Unknown
) -> tuple[npt.NDArray[np.int64], Ids]:
    """Return where the ids of a column are, −1 for one to skip, and all ids."""
    if known is None:
        return _numbered(given, what)
    if not isinstance(known, Ids):
        raise TypeError(
            f"{what}s: expected Ids, got {type(known).__name__}; give model.catalogue.{what}s or "
            "recommend.Ids(x)"
        )
    wanted = given.tolist()
    if unknown == "error":
        return known.positions(wanted), known
    found = np.full(len(wanted), -1, np.int64)
    there = np.fromiter((one in known for one in wanted), bool, len(wanted))
    found[there] = known.positions(one for one in wanted if one in known)
    return found, known


def _numbered(ids: Array, what: str) -> tuple[npt.NDArray[np.int64], Ids]:
    """Return positions of all ids, and the different ones in the order in which they come."""
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
    try:
        known = Ids(dict.fromkeys(wanted), what)
    except TypeError as error:
        raise TypeError(
            f"{what}: expected ids that can be looked up, got some that cannot ({error}); give "
            "strings, numbers or tuples"
        ) from error
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
    if hasattr(column, "dtype"):
        return np.asarray(column)
    values = list(column)
    if all(isinstance(one, int | float | np.generic) for one in values):
        return np.asarray(values)
    return np.fromiter(values, object, len(values))  # as they are: tuples, mixed kinds
