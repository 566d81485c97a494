"""A concatenation whose parts are kept apart.

In the middle of a U-Net or a DenseNet a tensor is put together from channels that are the same for
all draws, a skip connection say, and channels that differ among them. As long as the parts are kept
apart, what is done to the former is done once.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from dubio.draws.arguments import Operand, Slot
from dubio.draws.batching import as_draws, as_rows
from dubio.draws.steps import Play
from dubio.noise.protocols import RandomNumbers


def is_fixed(value: Operand) -> bool:
    """Return whether a value is the same for all draws."""
    return not isinstance(value, Slot) or value.fixed


class Piece(NamedTuple):
    """Some entries of a value along an axis."""

    value: Operand
    start: int
    length: int

    @property
    def fixed(self) -> bool:
        """Whether it is the same for all draws."""
        return is_fixed(self.value)

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + self.length


@final
class Concatenation:
    """A value that is the concatenation of pieces along an axis.

    Attributes:
        axis: The axis, in the shape of one draw.
        pieces: The pieces, in order.
    """

    def __init__(self, axis: int, pieces: Sequence[Piece]) -> None:
        self.axis = axis
        self.pieces = tuple(pieces)

    @property
    def any_fixed(self) -> bool:
        """Whether some pieces are the same for all draws."""
        return any(piece.fixed for piece in self.pieces)

    @property
    def kinds(self) -> list[bool]:
        """For which values of `Piece.fixed` there are pieces."""
        return sorted({piece.fixed for piece in self.pieces})

    @property
    def pattern(self) -> list[tuple[bool, int]]:
        """Which pieces are fixed, and how long they are."""
        return [(piece.fixed, piece.length) for piece in self.pieces]

    def of_kind(self, fixed: bool) -> list[Piece]:
        """Return the pieces that are fixed, or the others."""
        return [piece for piece in self.pieces if piece.fixed == fixed]

    def length(self, fixed: bool) -> int:
        """Return how long the pieces of a kind are together."""
        return sum(piece.length for piece in self.of_kind(fixed))

    def of_another(self, value: Operand, fixed: bool) -> list[Piece]:
        """Return the pieces of another value where pieces of a kind lie here."""
        return [
            Piece(value, start, piece.length)
            for start, piece in self._placed()
            if piece.fixed == fixed
        ]

    def replaced(self, values: dict[bool, Operand]) -> "Concatenation":
        """Return the same pattern of other values, which hold all pieces of a kind."""
        starts = {True: 0, False: 0}
        pieces = []
        for piece in self.pieces:
            pieces.append(Piece(values[piece.fixed], starts[piece.fixed], piece.length))
            starts[piece.fixed] += piece.length
        return Concatenation(self.axis, pieces)

    def between(self, start: int, stop: int) -> "Concatenation":
        """Return a section of it."""
        pieces = []
        for place, piece in self._placed():
            first, last = max(start, place), min(stop, place + piece.length)
            if first < last:
                pieces.append(Piece(piece.value, piece.start + first - place, last - first))
        return Concatenation(self.axis, pieces)

    def _placed(self) -> Iterator[tuple[int, Piece]]:
        place = 0
        for piece in self.pieces:
            yield place, piece
            place += piece.length


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the same pieces; neighbours that are neighbours in one value are one piece."""
    result: list[Piece] = []
    for piece in pieces:
        last = result[-1] if result else None
        if last is not None and last.value is piece.value and last.stop == piece.start:
            result[-1] = Piece(piece.value, last.start, last.length + piece.length)
        else:
            result.append(piece)
    return result


@final
class Concatenate:
    """A step that puts pieces together."""

    def __init__(self, parts: Concatenation, output: Slot) -> None:
        self._parts = parts = Concatenation(parts.axis, merged(parts.pieces))
        self.inputs = [piece.value for piece in parts.pieces if isinstance(piece.value, Slot)]
        self.outputs = [output]

    @property
    def signature(self) -> Hashable:
        """The axis, and which part of which value each piece is."""
        parts = self._parts
        return (
            "concatenate",
            parts.axis,
            *(
                (piece.fixed, piece.value.shape, piece.start, piece.length)
                for piece in parts.pieces
            ),
        )

    def play(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Compute the whole for all draws; if nothing differs among them, once."""
        axis, output = self._parts.axis, self.outputs[0]
        draws = None if output.fixed else len(numbers.indices)
        pieces = [self._cut(piece, values, draws) for piece in self._parts.pieces]
        if draws is None:
            values[output.number] = torch.cat(pieces, axis)
        elif axis == 0:
            values[output.number] = torch.cat(pieces, 1)
        else:  # as rows, whose layout in memory torch keeps, such as channels last
            rows = torch.cat([as_rows(piece) for piece in pieces], axis)
            values[output.number] = as_draws(rows, draws)

    def _cut(self, piece: Piece, values: list[Any], draws: int | None) -> Tensor:
        """Return the entries of a piece, for all draws unless there are none."""
        value = piece.value
        whole: Tensor = values[value.number] if isinstance(value, Slot) else value
        axis = self._parts.axis + (not piece.fixed)
        entries = whole.narrow(axis, piece.start, piece.length)
        if piece.fixed and draws is not None:
            return entries.expand(draws, *entries.shape)
        return entries

    def compiled(self) -> Play:
        """Return the same."""
        return self.play
