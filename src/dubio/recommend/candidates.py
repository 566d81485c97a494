"""Which items may be recommended to which users."""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, issparse
from torch import Tensor

from dubio.recommend.catalogue import Ids
from dubio.recommend.histories import histories

Items: TypeAlias = Sequence[int] | Sequence[str] | npt.NDArray[Any]  # positions or names


@final
class Candidates:
    """All items, but for those that are left out.

    Args:
        num_items: How many there are.
        num_users: How many users ask.
        items: The only items to choose from, if not all.
        exclude: Items that nobody gets, or a sparse matrix users × items.
        names: What items are called, if they may be given by name.
    """

    def __init__(
        self,
        num_items: int,
        num_users: int,
        items: Items | None,
        exclude: Any,
        names: Ids | None = None,
    ) -> None:
        self._barred = torch.zeros(num_items, dtype=torch.bool)
        self._pairs: csr_array | None = None
        if items is not None:
            self._barred[:] = True
            self._barred[item_positions(items, num_items, "items", names)] = False
        if issparse(exclude):
            self._pairs = histories(exclude, num_items, "exclude")
            if self._pairs.shape[0] != num_users:
                raise ValueError(
                    f"exclude: expected a row for each of the {num_users} users, got shape "
                    f"{self._pairs.shape}; give positions of items to exclude them for everybody"
                )
        elif exclude is not None:
            self._barred[item_positions(exclude, num_items, "exclude", names)] = True

    def bar(self, scores: Tensor, rows: slice, seen: csr_array | None) -> None:
        """Set the scores (B, I) of all other items, and of items already seen, to −∞."""
        if self._barred.any():
            scores.masked_fill_(self._barred, -torch.inf)
        for pairs in (seen, None if self._pairs is None else self._pairs[rows]):
            if pairs is not None:
                user, item = pairs.nonzero()
                scores[torch.from_numpy(user).long(), torch.from_numpy(item).long()] = -torch.inf


def item_positions(items: Any, num_items: int, name: str, names: Ids | None = None) -> Tensor:
    """Return positions of items as a tensor, checked. Strings are looked up in the names."""
    given = np.asarray(items)
    if given.ndim != 1:
        raise TypeError(
            f"{name}: expected positions of items, integers in one dimension, got {given.dtype} "
            f"of shape {given.shape}; give a list"
        )
    return _positions(given, num_items, name, names)


def items_by_user(items: Any, shape: tuple[int, int], names: Ids | None) -> Tensor:
    """Return positions of items for each user, (B, m), from (m,) or (B, m)."""
    given = np.asarray(items)
    if given.ndim not in (1, 2) or (given.ndim == 2 and len(given) != shape[0]):
        raise ValueError(
            f"items: expected as many for each of the {shape[0]} users, (users, items), or one "
            f"list for all, got shape {given.shape}; score users with other numbers apart"
        )
    places = _positions(given.reshape(-1), shape[1], "items", names).view(given.shape)
    return places.expand(shape[0], given.shape[-1])


def _positions(given: npt.NDArray[Any], num_items: int, name: str, names: Ids | None) -> Tensor:
    if given.size == 0:
        return torch.empty(0, dtype=torch.long)
    if given.dtype.kind == "U" and names is not None:
        return torch.from_numpy(names.positions(given.tolist()))
    if given.dtype.kind not in "iu":
        remedy = "set model.catalogue to give names, or give catalogue.items.positions(x)"
        raise TypeError(
            f"{name}: expected positions of items, integers, got {given.dtype} of shape "
            f"{given.shape}; {'give numpy.flatnonzero(x)' if given.dtype == bool else remedy}"
        )
    wrong = (given < 0) | (given >= num_items)
    if wrong.any():
        raise ValueError(
            f"{name}: expected positions from 0 to {num_items - 1}, got "
            f"{given[wrong][:5].tolist()}; leave them out"
        )
    return torch.from_numpy(given.astype(np.int64))
