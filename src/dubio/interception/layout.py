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
    """

    shape: torch.Size
    axis: int = 0
    index: Tensor | None = None

    def spread(self, noise: Tensor) -> Tensor:  # (S, *shape) -> broadcasts against (S, *tensor)
        """Lay the noise of several draws out over the tensor."""
        return noise if self.index is None else noise.index_select(self.axis + 1, self.index)


def one_noise_for_all_rows(shape: torch.Size, axis: int, rows: int, device: torch.device) -> Layout:
    """The layout of noise that is the same for every row of the batch on ``axis``.

    Where rows were unfolded into the axis (``x.reshape(B * T, D)``, heads of attention), the noise
    has the size of one row's part and repeats.
    """
    part = shape[axis] // rows
    compact = torch.Size([*shape[:axis], part, *shape[axis + 1 :]])
    if part == 1:
        return Layout(compact)
    return Layout(compact, axis, torch.arange(part, device=device).repeat(rows))


def batch_axis(
    shape: torch.Size, rows: int, other_shape: torch.Size, other_rows: int
) -> int | None:
    """The axis of the batch, read off the shapes of passes over two batch sizes."""
    for axis, (size, other) in enumerate(zip(shape, other_shape, strict=True)):
        if size != other and size * other_rows == other * rows:
            return axis
    return None


def likely_batch_axis(shape: torch.Size, rows: int) -> int | None:
    """The first axis as long as the batch; else the first, if rows may be unfolded in it."""
    if rows in shape:
        return shape.index(rows)
    return 0 if shape[0] % rows == 0 else None
