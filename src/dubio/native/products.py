"""Linear layers for many draws by the kernels, as `kernels/products.h` describes them.

Their products read the left matrix as it lies; the right one lies in panels, some of its columns
side by side for every inner unit. All tensors are such that the kernels can read them
(`dubio.native.stream.usable`), and there is no graph.
"""

from ctypes import pointer
from typing import NamedTuple, final

import torch
from torch import Tensor

from dubio.native.library import (
    LOADED,
    DropoutDescription,
    MaskDescription,
    RowLayerDescription,
    UnitLayerDescription,
)
from dubio.native.stream import Stream

_GROUP, _RUN = 64, 1024  # as in kernels/kernels.h: rows at a time, and entries of a noise


@final
class RowDropout(NamedTuple):
    """Dropout with a mask for each row: where it comes from, P(an entry is kept), its factor."""

    stream: Stream
    keep: float
    scale: float


@final
class Sampling(NamedTuple):
    """Weights μ + σε: where their noise comes from, its first entry for them, and σ in a row."""

    stream: Stream
    start: int
    deviation: Tensor


def width() -> int:
    """Return how many columns a panel has; zero where torch's products are to be preferred."""
    return 0 if LOADED is None else int(LOADED.dubio_width())


def to_panels(matrix: Tensor) -> Tensor:  # (R, C) -> (P, C, W), (S, R, C) -> (S, P, C, W)
    """Lay out the transposed matrix in panels, with zeros behind the last row."""
    assert LOADED is not None
    *draws, rows, columns = matrix.shape
    matrix = matrix if matrix.stride(-1) == 1 else matrix.contiguous()
    made = _empty(*draws, -(-rows // width()), columns, width())
    LOADED.dubio_panels(
        draws[0] if draws else 1, rows, columns, matrix.data_ptr(), matrix.stride(-2),
        matrix.stride(0) if draws else 0, made.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return made


def from_panels(panels: Tensor, rows: int) -> Tensor:  # (S, P, C, W) -> (S, R, C)
    """Return matrices as they were before `to_panels`."""
    return panels.transpose(2, 3).flatten(1, 2)[:, :rows]


def unit_layer(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    rows: int,
    draws: int,
    inputs: Tensor | None = None,
    outputs: Tensor | None = None,
    scale: float = 1.0,
    relu: bool = False,
    sampling: Sampling | None = None,
) -> Tensor:  # (S, P, K, W)
    """Compute a linear layer for some draws, on a batch in panels; what is left out stays empty.

    Args:
        x: The batch, the same for all draws or not.  # (P, D, W) or (S, P, D, W)
        weight: Likewise.  # (K, D) or (S, K, D)
        bias: By output, likewise.  # (K,) or (S, K)
        rows: Of the batch.
        draws: How many.
        inputs: Zeros for inputs that a draw leaves out.  # (S, D)
        outputs: The same for outputs.  # (S, K)
        scale: A factor of the product.
        relu: Whether what is negative becomes zero.
        sampling: How weights are drawn, whose means are given then: if `begins_runs` allows it, and
            all outputs are kept.
    """
    assert LOADED is not None
    weight = weight if weight.stride(-1) == 1 else weight.contiguous()
    bias, inputs, outputs = (
        None if given is None else given.contiguous() for given in (bias, inputs, outputs)
    )
    made = _empty(draws, x.shape[-3], weight.shape[-2], x.shape[-1])
    drawn: tuple[int | None, ...] = ()
    if sampling is not None:
        stream, start, deviation = sampling
        drawn = deviation.data_ptr() + 4 * start, stream.key, stream.first, start
    LOADED.dubio_unit_layer(
        UnitLayerDescription(
            draws, rows, weight.shape[-1], weight.shape[-2],
            x.data_ptr(), weight.data_ptr(), _address(bias),
            x.stride(0) if x.dim() == 4 else 0,
            weight.stride(-2), weight.stride(0) if weight.dim() == 3 else 0,
            bias.stride(0) if bias is not None and bias.dim() == 2 else 0,
            _address(inputs), _address(outputs), made.data_ptr(), scale, relu, *drawn,
        ),
        torch.get_num_threads(),
    )  # fmt: skip
    return made


def row_layer(
    x: Tensor,
    panels: Tensor,
    bias: Tensor | None,
    *,
    draws: int,
    outputs: int,
    relu: bool = False,
    before: RowDropout | None = None,
    after: RowDropout | None = None,
) -> Tensor:  # (S, B, K)
    """Compute a linear layer for some draws, with dropout before and after it.

    Args:
        x: The batch, contiguous, the same for all draws or not.  # (B, D) or (S, B, D)
        panels: The weights, laid out by `to_panels`.  # (P, D, W)
        bias: By output.  # (K,)
        draws: How many.
        outputs: K.
        relu: Whether what is negative becomes zero.
        before: Dropout of the inputs, if `begins_runs` allows it.
        after: Dropout of the outputs, likewise.
    """
    assert LOADED is not None
    rows, inputs = x.shape[-2:]
    bias = None if bias is None else bias.contiguous()
    dropout = before or after
    made = _empty(draws, rows, outputs)
    LOADED.dubio_row_layer(
        RowLayerDescription(
            0 if dropout is None else dropout.stream.first, draws, rows, inputs, outputs,
            x.data_ptr(), panels.data_ptr(), _address(bias), x.stride(0) if x.dim() == 3 else 0,
            _description(before), _description(after), made.data_ptr(), relu,
        ),
        torch.get_num_threads(),
    )  # fmt: skip
    return made


def begins_runs(units: int, start: int = 0) -> bool:
    """Return whether groups of rows of so many entries begin with runs of their noise.

    So it must be if the noise is made by `row_layer` or `unit_layer`.
    """
    return start % _RUN == 0 and _GROUP * units % _RUN == 0


def _description(dropout: RowDropout | None) -> object:
    if dropout is None:
        return None
    mask = MaskDescription(None, dropout.keep, dropout.scale, 1, 0.0, 0, 0, 0)
    return pointer(DropoutDescription(mask, dropout.stream.key))


def _empty(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
