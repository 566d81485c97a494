"""How the noise of one draw lies in a tensor when all rows of a batch share it."""

from dataclasses import dataclass

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
        grows: Whether the noise is as long as the longest row of the batch. Then the noise of a
            longer one begins with that of a shorter one.
    """

    shape: torch.Size
    axis: int = 0
    index: Tensor | None = None
    grows: bool = False

    def spread(self, noise: Tensor) -> Tensor:  # (S, *shape) -> broadcasts against (S, *tensor)
        """Lay the noise of several draws out over the tensor."""
        return noise if self.index is None else noise.index_select(self.axis + 1, self.index)


@dataclass(frozen=True)
class BatchAxis:
    """The axis of the batch in a tensor.

    Attributes:
        axis: Which axis.
        part: How many entries along it belong to one row: more than one where rows were merged
            with something else, as in ``x.reshape(B * T, D)``.
        rows_first: Whether, if merged, the entries of one row lie together.
    """

    axis: int
    part: int = 1
    rows_first: bool = True

    def layout(self, shape: torch.Size, device: torch.device) -> Layout:
        """The layout of noise that is the same for every row of a tensor of this shape."""
        compact = torch.Size([*shape[: self.axis], self.part, *shape[self.axis + 1 :]])
        if self.part == 1:
            return Layout(compact)
        rows = shape[self.axis] // self.part
        entries = torch.arange(self.part, device=device)
        index = entries.repeat(rows) if self.rows_first else entries.repeat_interleave(rows)
        return Layout(compact, self.axis, index)


@dataclass(frozen=True)
class Probe:
    """A tensor as it is in a pass over few rows, and in one over the same rows turned around."""

    forwards: Tensor
    backwards: Tensor
    rows: int

    def batch_axis(self, shape: torch.Size, rows: int) -> BatchAxis | None:
        """The axis of the batch in a pass over another number of rows: the one that grew."""
        for axis, (size, few) in enumerate(zip(shape, self.forwards.shape, strict=True)):
            if size != few and size * self.rows == few * rows:
                part = size // rows
                return BatchAxis(axis, part, rows_first=not self._turns(axis, part))
        return None

    def _turns(self, axis: int, part: int) -> bool:
        """Whether each of the parts along an axis is turned around, and not the parts of rows."""
        parts_of_rows = self.forwards.unflatten(axis, (self.rows, part)).flip(axis)
        rows_of_parts = self.forwards.unflatten(axis, (part, self.rows)).flip(axis + 1)
        return not _same(parts_of_rows, self.backwards) and _same(rows_of_parts, self.backwards)


def _same(turned: Tensor, tensor: Tensor) -> bool:
    a, b = turned.flatten().double(), tensor.flatten().double()
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)


def likely_batch_axis(shape: torch.Size, rows: int) -> BatchAxis | None:
    """A guess from one shape: the first axis, or another as long as the batch, or rows merged.

    Raises:
        ValueError: If several axes but the first are as long as the batch.
    """
    if shape[0] == rows:
        return BatchAxis(0)
    if list(shape).count(rows) > 1 and rows > 1:
        raise ValueError(
            f"shared=True: expected to find the {rows} rows of the batch in a tensor of shape "
            f"{tuple(shape)}, got several axes of that length; use another batch size, or "
            f"dubio.predict, which tries."
        )
    if rows in shape:
        return BatchAxis(shape.index(rows))
    return BatchAxis(0, shape[0] // rows) if shape[0] % rows == 0 else None
