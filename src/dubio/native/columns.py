"""Columns of weights: sums of their products, multiples of them, and their divergence."""

from ctypes import c_double

import torch
from torch import Tensor

from dubio.native.library import LOADED
from dubio.native.masked import serves

_WORTH = 2**14  # entries


def column_products(a: Tensor, b: Tensor) -> Tensor:  # (R, K), (R, K) -> (K,)
    """Return Σ_r a_rk·b_rk, without the product in memory."""
    large = LOADED is not None and a.dim() == 2 and a.numel() >= _WORTH
    if large and not torch.is_grad_enabled():
        one, other = a.detach(), b.detach()  # parameters are tensors then
        if serves(one) and serves(other) and one.is_contiguous() and other.is_contiguous():
            sums = torch.empty(a.shape[1], dtype=torch.float32, device="cpu")
            walk(one, other, None, sums)
            return sums
    return (a * b).sum(0)


def walk(
    a: Tensor,
    b: Tensor | None,
    c: Tensor | None,
    sums: Tensor | None,
    factor: Tensor | None = None,
    times: float = 0.0,
    to: Tensor | None = None,
) -> None:
    """Go once over contiguous matrices that the kernels can read.

    Args:
        a: One matrix.  # (R, K)
        b: Another, or None for none.
        c: A third, or None for zero.
        sums: What becomes Σ_r a_rk·(b_rk − c_rk), or None.  # (K,)
        factor: A number for each column, or one for all.  # (K | 1,)
        times: A number.
        to: To what a_rk·factor_k·times is added, after it was read as b or c; or None.
    """
    assert LOADED is not None
    LOADED.dubio_columns(
        *a.shape, a.data_ptr(), _at(b), _at(c), _at(factor),
        0 if factor is None else factor.numel(), times, _at(to), _at(sums),
        torch.get_num_threads(),
    )  # fmt: skip


def rate_divergence(
    weights: Tensor, logit: Tensor, precision: float
) -> tuple[float, Tensor, Tensor]:
    """Return the divergence `learned_bernoulli_kl`, ℓ²/keep, and its slopes by logit.

    For contiguous tensors that the kernels can read.
    """
    assert LOADED is not None
    value = c_double()
    scale, by_logit = torch.empty((2, *logit.shape), dtype=torch.float32, device="cpu")
    LOADED.dubio_divergence(
        *weights.shape, len(logit), weights.data_ptr(), logit.data_ptr(), precision, value,
        scale.data_ptr(), by_logit.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return value.value, scale, by_logit


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
