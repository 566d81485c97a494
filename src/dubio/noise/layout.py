"""How the noise of one draw lies in a tensor when all rows of a batch share it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """The shape in which noise is drawn, and how it spreads over the tensor it acts on.

    Attributes:
        shape: Shape of the noise of one draw. It broadcasts against the tensor, except along
            ``axis`` when ``index`` is given.
        axis: The axis along which ``index`` repeats the noise.
        index: Which entry of the noise each entry along ``axis`` gets.
        grows: Whether the shape may depend on which rows are in the batch, as where sequences are
            cut to the longest one. Then the noise of a longer one begins with that of a shorter.
    """

    shape: torch.Size
    axis: int = 0
    index: Tensor | None = None
    grows: bool = False

    def spread(self, noise: Tensor) -> Tensor:  # (S, *shape) -> broadcasts against (S, *tensor)
        """Lay the noise of several draws out over the tensor."""
        if self.index is None:
            return noise
        return noise.index_select(self.axis + 1, self.index.to(noise.device))


@dataclass(frozen=True)
class Placement:
    """Where the rows of the batch are in a tensor.

    Attributes:
        axis: The axis that tells rows apart; None if there is none.
        part: How many entries along it a row has: more than one where rows were merged with
            something else, as in ``x.reshape(B * T, D)``; if rows differ, the most.
        index: Which of the entries of its row each entry along the axis is.
        grows: Whether the shape of the tensor may depend on which rows are in the batch.
        found: Whether anybody knows. If not, the other attributes but `grows` mean nothing.
    """

    axis: int | None = None
    part: int = 1
    index: Tensor | None = None
    grows: bool = False
    found: bool = True

    def layout(self, shape: torch.Size, tensor: torch.Size) -> Layout:
        """Return the layout of noise of some shape that is the same for every row of the tensor.

        The noise has an axis for each of the tensor's, of length one where it is the same along
        that axis; or else rows come first in it.
        """
        if self.axis is None:
            return Layout(shape, grows=self.grows)
        axis = self.axis if len(shape) == len(tensor) else 0
        if shape[axis] != tensor[self.axis]:
            return Layout(shape, grows=self.grows)
        compact = torch.Size([*shape[:axis], self.part, *shape[axis + 1 :]])
        index = None if self.part == 1 else self.index
        return Layout(compact, axis, index, self.grows)

    def stretched(self, few: int, rows: int) -> "Placement | None":
        """Return the layout for more rows, if entries lie in a regular order, else None."""
        if self.axis is None or self.part == 1:
            return self
        assert self.index is not None
        for each in range(1, self.part + 1):
            if self.part % each == 0 and torch.equal(_in_turn(self.part, each, few), self.index):
                return replace(self, index=_in_turn(self.part, each, rows))
        return None


def _in_turn(part: int, each: int, rows: int) -> Tensor:
    """Return which entries of its row entries are, if rows take turns with some of theirs."""
    return torch.arange(part).view(-1, 1, each).expand(-1, rows, -1).flatten()


def rows_on(axis: int | None, shape: torch.Size, rows: int, *, grows: bool) -> Placement:
    """Rows on an axis; if it is longer than the batch, the entries of one row lie together."""
    if axis is None:
        return Placement(grows=grows)
    part = shape[axis] // rows
    return Placement(axis, part, _in_turn(part, part, rows), grows)
