"""What stands between the matrix products of a network, by one kernel: bias, ReLU and dropout.

For tensors that the kernels can read (`dubio.native.stream.usable`), and without a graph.
"""

import torch
from torch import Tensor

from dubio.native.library import LOADED, MaskDescription
from dubio.native.stream import Stream


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
