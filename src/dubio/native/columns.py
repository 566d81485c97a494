"""Sums over rows of the product of two matrices, without the product in memory."""

import torch
from torch import Tensor

from dubio.native.library import LOADED
from dubio.native.masked import serves

_WORTH = 2**14  # entries


def column_products(a: Tensor, b: Tensor) -> Tensor:  # (R, K), (R, K) -> (K,)
    """Return Σ_r a_rk·b_rk."""
    large = LOADED is not None and a.dim() == 2 and a.numel() >= _WORTH
    if large and not torch.is_grad_enabled():
        one, other = a.detach(), b.detach()  # parameters are tensors then
        if serves(one) and serves(other) and one.is_contiguous() and other.is_contiguous():
            sums = torch.empty(a.shape[1], dtype=torch.float32, device="cpu")
            assert LOADED is not None
            LOADED.dubio_column_products(
                *a.shape, one.data_ptr(), other.data_ptr(), sums.data_ptr(),
                torch.get_num_threads(),
            )  # fmt: skip
            return sums
    return (a * b).sum(0)
