"""External ids of users and items."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

Array: TypeAlias = npt.NDArray[Any]

_NAMED = 5  # ids that an error names


@final
class Ids:
    """Unique ids, any hashable, and their positions 0, 1, ….

    Args:
        ids: The ids, in the order of their positions.
        what: What they identify, for error messages.
    """

    def __init__(self, ids: Iterable[Hashable], what: str = "id") -> None:
        self._ids = tuple(_plain(one) for one in ids)
        self._what = what
        try:
            self._positions = {one: position for position, one in enumerate(self._ids)}
        except TypeError as error:
            raise TypeError(
                f"{what}s: expected ids that can be looked up, got some that cannot ({error}); "
                "give strings, numbers or tuples"
            ) from error
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

    def positions(self, ids: Iterable[Hashable]) -> npt.NDArray[np.int64]:
        """Return the positions of ids; unknown ids are an error."""
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

    def ids(self, positions: npt.ArrayLike) -> list[Any]:
        """Return the ids at these positions, as lists of the same shape; None for −1."""
        places = np.asarray(positions)
        if places.size == 0:
            places = places.astype(np.int64)
        if places.dtype.kind not in "iu" or places.ndim == 0:
            raise TypeError(
                f"{self._what}s: expected positions, integers in a list or an array, got "
                f"{places.dtype} of shape {places.shape}; convert them, or numpy.flatnonzero(x)"
            )
        wrong = (places < -1) | (places >= len(self))
        if wrong.any():
            raise IndexError(
                f"{self._what}s: expected positions from 0 to {len(self) - 1}, or −1 for none, got "
                f"{places[wrong][:_NAMED].tolist()}; take the catalogue of the training data"
            )
        named = np.empty(places.shape, object)
        for place, position in np.ndenumerate(places):
            named[place] = None if position < 0 else self._ids[position]
        return list(named.tolist())


@final
@dataclass(frozen=True)
class Catalogue:
    """The external ids of users and items.

    Attributes:
        users: Ids of the rows of a matrix.
        items: Ids of its columns.
    """

    users: Ids
    items: Ids

    def select(self, items: npt.ArrayLike) -> "Catalogue":
        """Return the catalogue of some items, such as those of a split: ``select(parts.items)``."""
        return Catalogue(self.users, Ids(self.items.ids(items), "item"))


@final
@dataclass(frozen=True, eq=False)
class Interactions:
    """Which user has interacted with which item.

    Attributes:
        user_items: Users × items, binary CSR.
        catalogue: The ids of rows and columns.
        times: Time of the first of equal interactions, (nnz,), in the order of
            ``user_items.indices``: numbers or datetime64 (UTC), as given; None if there were none.
    """

    user_items: csr_array
    catalogue: Catalogue
    times: Array | None


def _plain(one: Any) -> Any:
    """Return numbers and strings of numpy as those of Python."""
    plain = isinstance(one, np.number | np.bool_ | np.str_ | np.bytes_)
    return one.item() if plain else one
