"""What stands between the matrix products of a network, by one kernel: bias, ReLU and dropout.

For tensors that the kernels can read (`dubio.native.stream.usable`), and without a graph.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dubio.native.library import LOADED, MaskDescription
from dubio.native.stream import Stream

ROOM = 16  # entries that a row must have to spare


def activate(
    x: Tensor,
    bias: Tensor | None,
    *,
    relu: bool,
    dropout: tuple[Stream, float, float] | None = None,
) -> None:
    """X becomes max(x + bias, 0)·m, in place.

    Args:
        x: Results of a product, contiguous.  # (…, units), or (S, …, units) with dropout
        bias: By unit.
        relu: Whether what is negative becomes zero.
        dropout: Where masks come from, the probability of keeping an entry and its factor then.
    """
    assert LOADED is not None
    units, threads = x.shape[-1], torch.get_num_threads()
    given = None if bias is None else bias.data_ptr()
    if dropout is None:
        LOADED.dubio_activate(None, 0, 0, 1, x.numel(), given, units, relu, x.data_ptr(), threads)
        return
    stream, keep, scale = dropout
    LOADED.dubio_activate(
        MaskDescription(None, keep, scale, 1, 0.0, 0, 0, 0), stream.key, stream.first, stream.draws,
        x.numel() // stream.draws, given, units, relu, x.data_ptr(), threads,
    )  # fmt: skip


class KeptUnits(NamedTuple):
    """Which units a mask keeps: those where it is not zero, and their number."""

    mask: Tensor
    units: int


def cut(
    matrix: Tensor, rows: KeptUnits | None, columns: KeptUnits | None, scale: float = 1.0
) -> Tensor:
    """Return the kept rows and columns of a matrix, or all of them, times a factor: (R, C)."""
    assert LOADED is not None
    height, width = (
        size if kept is None else kept.units
        for size, kept in zip(matrix.shape, (rows, columns), strict=True)
    )
    if matrix.stride(1) != 1:
        matrix = matrix.contiguous()
    out = torch.empty((height, width + ROOM), dtype=torch.float32, device="cpu")
    LOADED.dubio_cut(
        matrix.data_ptr(), matrix.stride(0), *matrix.shape,
        None if rows is None else rows.mask.data_ptr(),
        None if columns is None else columns.mask.data_ptr(), scale, out.data_ptr(), out.stride(0),
        torch.get_num_threads(),
    )  # fmt: skip
    return out[:, :width]
