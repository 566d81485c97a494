"""Which rows the values of a pass depend on, found from its record.

The reach of a value is the highest row that it depends on, and the lowest, counted from the other
end: two numbers, −1 where there is none. What depends on several values reaches as far as the
furthest of them, so that a maximum is all there is to compute. An operation whose rule is not known
reaches as far as all of its arguments together.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dubio.objectives.record import RecordedOperation, Source, StoragePlace


class Reach(NamedTuple):
    """The reach of every value of a tensor.

    Attributes:
        of: Both numbers; those of one value where all along an axis have the same.  # (2, *S | 1)
        shape: The shape of the tensor, S.
        dtype: Of what its entries are.
    """

    of: Tensor
    shape: torch.Size
    dtype: torch.dtype

    def full(self) -> Tensor:  # (2, *S)
        """Return both numbers for every value."""
        return self.of.expand(2, *self.shape)

    def by_row(self) -> Tensor:  # (2, B | 1)
        """Return the reach of all values of each row, on the first axis, together."""
        return self.of.reshape(2, self.of.shape[1], -1).amax(2)

    def whole(self, rank: int) -> Tensor:  # (2, 1, …)
        """Return the reach of all values together, with so many axes."""
        return self.of.reshape(2, -1).amax(1).view(2, *[1] * rank)


def nothing(rank: int) -> Tensor:  # (2, 1, …)
    """Return the reach of values that depend on no row, with so many axes."""
    return torch.full((2, *[1] * rank), -1.0)


class UnknownReachError(Exception):
    """The record does not contain enough information."""


class Reaches:
    """The reaches of all tensors of a record, step by step.

    Args:
        rows: How many rows there are.

    Attributes:
        own: The reach of every row.  # (2, B)
    """

    def __init__(self, rows: int) -> None:
        ascending = torch.arange(rows, dtype=torch.float32)
        self.own = torch.stack([ascending, ascending.flip(0)])
        self._known: dict[int, tuple[StoragePlace, Tensor]] = {}

    def begin(self, source: Source) -> None:
        """Values depend on rows: each on its own, or on nobody knows which."""
        place, axis = source
        shape = [1] * len(place.shape)
        if axis is None:
            self.write(place, self.own.amax(1).view(2, *shape))
        else:
            shape[axis] = -1
            self.write(place, self.own.view(2, *shape))

    def read(self, place: StoragePlace) -> Reach:
        """Return the reach of a tensor."""
        if place.storage not in self._known:
            return Reach(nothing(len(place.shape)), place.shape, place.dtype)
        home, of = self._known[place.storage]
        if home != place:
            of = _compact(_view(_laid_out(home, of, _size(home, place)), place))
        return Reach(of, place.shape, place.dtype)

    def write(self, place: StoragePlace, of: Tensor) -> None:
        """Give a tensor another reach, and with it all that share its place."""
        home, before = self._known.get(place.storage, (place, of))
        if home != place:
            size = _size(home, place)
            flat = _laid_out(home, before, size)
            _view(flat, place).copy_(of.expand(2, *place.shape))
            place = StoragePlace(place.storage, torch.Size([size]), (1,), 0, place.dtype)
            of = _compact(flat)
        self._known[place.storage] = (place, of)

    def arguments(self, step: RecordedOperation) -> dict[str, Any]:
        """Return the arguments of a step by their names, with reaches for tensors.

        Left out are those that it writes over whatever they are.
        """
        declared = step.function._schema.arguments
        given = dict(zip([argument.name for argument in declared], step.args, strict=False))
        given |= dict(step.kwargs)
        return {
            argument.name: self._argument(given.get(argument.name, argument.default_value))
            for argument in declared
            if not argument.is_out
        }

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, StoragePlace):
            return self.read(arg)
        return [self._argument(part) for part in arg] if type(arg) is tuple else arg


def _view(flat: Tensor, place: StoragePlace) -> Tensor:  # (2, size) -> (2, *S)
    return flat.as_strided((2, *place.shape), (flat.shape[1], *place.strides), place.offset)


def _laid_out(home: StoragePlace, of: Tensor, size: int) -> Tensor:  # (2, size)
    """Return the reach of a whole storage; nothing is known to be in the rest of it."""
    flat = torch.full((2, size), -1.0)
    _view(flat, home).copy_(of.expand(2, *home.shape))
    return flat


def _size(one: StoragePlace, other: StoragePlace) -> int:
    """Return how many entries of a storage two places take up."""
    if one.dtype.itemsize != other.dtype.itemsize:
        raise UnknownReachError
    ends = [
        place.offset + sum((n - 1) * s for n, s in zip(place.shape, place.strides, strict=True))
        for place in (one, other)
        if 0 not in place.shape
    ]
    return 1 + max(ends, default=0)


def _compact(of: Tensor) -> Tensor:
    """Return the same with one entry along axes where all are equal."""
    for axis in range(1, of.dim()):
        if of.shape[axis] > 1:
            first = of.narrow(axis, 0, 1)
            of = first if torch.equal(of, first.expand_as(of)) else of
    return of
