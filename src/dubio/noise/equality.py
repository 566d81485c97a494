"""Compare outputs up to rounding."""

import torch
from torch import Tensor

from dubio.noise.float64 import in_float64


def equal_up_to(loose: float, a: Tensor, b: Tensor, *others: Tensor) -> bool:
    """Return whether |a − b| ≤ loose·s + δ·S everywhere, with NaN in the same places.

    s is the largest entry at that place of a row, in all rows: one column of an output may be
    small beside another, and count. S is the largest of all, and δ what rounding does to it.

    Args:
        loose: How much they may differ, relative to the size of entries.
        a: Rows first.
        b: Rows first.
        others: Other draws, with rows first or second; they tell how large entries are.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not b.numel():
        return True
    if not b.is_floating_point():
        return torch.equal(a, b)
    sizes = torch.cat([in_float64(x.reshape(-1, *b.shape[1:])) for x in (b, *others)]).abs()
    sizes = sizes.nan_to_num_(0.0, 0.0, 0.0)
    of_place = sizes.amax(0)
    rounding = max(1e-2 * loose, 4 * torch.finfo(b.dtype).eps)
    bound = loose * of_place + rounding * of_place.amax() + 1e-30
    a, b = in_float64(a), in_float64(b)
    close = (a - b).abs() <= bound
    return bool((close | (a == b) | (a.isnan() & b.isnan())).all())
