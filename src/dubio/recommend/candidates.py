"""Which items may be recommended to whom."""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, issparse
from torch import Tensor

from dubio.recommend.histories import histories

Items: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]


@final
class Candidates:
    """All items, but for those that are left out.

    Args:
        num_items: How many there are.
        num_users: How many users ask.
        items: The only items to choose from, if not all.
        exclude: Items that nobody gets, or a sparse matrix users × items.
    """

    def __init__(self, num_items: int, num_users: int, items: Items | None, exclude: Any) -> None:
        self._barred = torch.zeros(num_items, dtype=torch.bool)
        self._pairs: csr_array | None = None
        if items is not None:
            self._barred[:] = True
            self._barred[item_positions(items, num_items, "items")] = False
        if issparse(exclude):
            self._pairs = histories(exclude, num_items, "exclude")
            if self._pairs.shape[0] != num_users:
                raise ValueError(
                    f"exclude: expected a row for each of the {num_users} users, got shape "
                    f"{self._pairs.shape}; give positions of items to exclude them for everybody"
                )
        elif exclude is not None:
            self._barred[item_positions(exclude, num_items, "exclude")] = True

    def bar(self, scores: Tensor, rows: slice, seen: csr_array | None) -> None:
        """Write −∞ to the scores (B, I) of all others, and of what these users have seen."""
        if self._barred.any():
            scores.masked_fill_(self._barred, -torch.inf)
        for pairs in (seen, None if self._pairs is None else self._pairs[rows]):
            if pairs is not None:
                user, item = pairs.nonzero()
                scores[torch.from_numpy(user).long(), torch.from_numpy(item).long()] = -torch.inf


def item_positions(items: Any, num_items: int, name: str) -> Tensor:
    """Positions of items as a tensor, checked."""
    given = np.asarray(items)
    if given.size == 0:
        return torch.empty(0, dtype=torch.long)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        remedy = "numpy.flatnonzero(x)" if given.dtype == bool else "catalogue.items.positions(x)"
        raise TypeError(
            f"{name}: expected positions of items, integers in one dimension, got {given.dtype} "
            f"of shape {given.shape}; give {remedy}"
        )
    wrong = (given < 0) | (given >= num_items)
    if wrong.any():
        raise ValueError(
            f"{name}: expected positions from 0 to {num_items - 1}, got "
            f"{given[wrong][:5].tolist()}; leave them out"
        )
    return torch.from_numpy(given.astype(np.int64))
