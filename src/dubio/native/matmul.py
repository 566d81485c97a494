"""Matrix products of a training step by the kernels, as `kernels/matmul.h` describes them.

Where torch's are faster, or the kernels cannot read a tensor, torch multiplies. Without a graph.
"""

from typing import NamedTuple, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.native.columns import walk
from dubio.native.library import LOADED, MatmulDescription

_WORTH = 2**20  # multiplications
_LEAST = 16  # rows, columns and inner units: fewer leave a vector half empty
_INNER = 2**12  # a panel of more units does not stay in the cache


@final
class Beside(NamedTuple):
    """What meets the gradient of weights while it is made.

    Attributes:
        weight: The weights W, contiguous.  # (K, D)
        sums: What becomes Σ_k W·gradient, by column; None for nothing.  # (D,)
        factor: By what columns of W are multiplied, one for each or one for all; None for nothing.
        times: By what they are multiplied, too, before they are added to the gradient.
    """

    weight: Tensor
    sums: Tensor | None = None
    factor: Tensor | None = None
    times: float = 0.0


_NOTHING: tuple[None, None, None, float] = (None, None, None, 0.0)


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, squared: bool = False
) -> Tensor:  # (B, K)
    """Return x·Wᵀ + b for x (B, D) and W (K, D), with the squares of x if asked for."""
    (units, inputs), rows = weight.shape, len(x)
    if not _serves(rows, units, inputs, x, weight):
        return F.linear(x.square() if squared else x, weight, bias)
    out = torch.empty((rows, units), dtype=torch.float32, device="cpu")
    _call(
        units, rows, inputs, weight.data_ptr(), inputs, 1, x.data_ptr(), 1, inputs,
        _address(bias), out.data_ptr(), 1, units, None, None, None, None, 0, 0.0, squared,
    )  # fmt: skip
    return out


def of_inputs(g: Tensor, weight: Tensor) -> Tensor:  # (B, D)
    """Return g·W: the gradient of the inputs, from that of the outputs, g (B, K)."""
    (units, inputs), rows = weight.shape, len(g)
    if not _serves(rows, inputs, units, g, weight):
        return g.mm(weight)
    out = torch.empty((rows, inputs), dtype=torch.float32, device="cpu")
    _call(
        rows, inputs, units, g.data_ptr(), units, 1, weight.data_ptr(), inputs, 1, None,
        out.data_ptr(), inputs, 1, None, None, None, None, 0, 0.0, False,
    )  # fmt: skip
    return out


def write_of_weight(
    out: Tensor | None,
    of_bias: Tensor | None,
    g: Tensor,
    x: Tensor,
    *,
    squared: bool = False,
    beside: Beside | None = None,
) -> None:
    """Write gᵀ·x and Σ_b g: the gradients of weight and bias, from that of the outputs.

    Args:
        out: Where the first goes, contiguous; None if only sums are wanted.  # (K, D)
        of_bias: Where the second goes, if it is wanted.  # (K,)
        g: The gradient of the outputs.  # (B, K)
        x: The inputs.  # (B, D)
        squared: Whether x stands for its squares.
        beside: What else is done.
    """
    rows, units, inputs = *g.shape, x.shape[1]
    if not _serves(units, inputs, rows, g, x):
        made = torch.mm(g.t(), x.square() if squared else x, out=out)
        if of_bias is not None:
            torch.sum(g, 0, out=of_bias)
        if beside is not None and (beside.sums is not None or beside.factor is not None):
            own, sums, factor, times = beside
            walk(own, made, None, sums, factor, times, None if factor is None else out)
        return
    weight, sums, factor, times = beside or _NOTHING
    _call(
        units, inputs, rows, g.data_ptr(), 1, units, x.data_ptr(), inputs, 1, None,
        _address(out), inputs, 1, _address(of_bias), _address(weight), _address(sums),
        _address(factor), 0 if factor is None else factor.numel(), times, squared,
    )  # fmt: skip


def _serves(rows: int, columns: int, inner: int, *given: Tensor) -> bool:
    """Return whether the kernels are to multiply matrices of a float32 that they can read."""
    return (
        min(rows, columns, inner) >= _LEAST
        and inner <= _INNER
        and rows * columns * inner >= _WORTH
        and LOADED is not None
        and bool(LOADED.dubio_beats_torch())
        and all(each.is_contiguous() for each in given)
    )


def _call(*description: int | float | None) -> None:
    assert LOADED is not None
    LOADED.dubio_matmul(MatmulDescription(*description), torch.get_num_threads())


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
