"""The regularised incomplete beta function, which torch lacks."""

import torch
from torch import Tensor

from dubio.noise.float64 import in_float64

_STEPS = 10_000
_EPS = torch.finfo(torch.float64).eps


def incomplete_beta(a: Tensor, b: Tensor, x: Tensor, rest: Tensor) -> Tensor:
    """Return I_x(a, b) = ∫_0^x t^(a−1) (1 − t)^(b−1) dt / B(a, b), in float64.

    By the continued fraction of DLMF 8.17.22, which converges fast for x < (a + 1)/(a + b + 2);
    elsewhere I_x(a, b) = 1 − I_{1−x}(b, a). Elements stop by themselves, so that none depends on
    the others.

    Args:
        a: Positive.
        b: Positive.
        x: In [0, 1].
        rest: 1 − x, which may be known better than x tells.
    """
    like = x
    a, b, x, rest = map(in_float64, (a, b, x, rest))
    mirrored = x > (a + 1) / (a + b + 2)
    a, b = a.where(~mirrored, b), b.where(~mirrored, a)
    x, rest = x.where(~mirrored, rest), rest.where(~mirrored, x)
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    front: Tensor = torch.special.xlogy(a, x) + torch.special.xlogy(b, rest) - log_beta - a.log()
    value = front.exp() * _fraction(a, b, x)
    return value.where(~mirrored, 1 - value).to(like)


def _fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return 1/(1 + d_1/(1 + d_2/(1 + …))), its denominator by the recurrence of Lentz (1976).

    The n-th convergent is the one before times c·d, where c = 1 + d_n/c and d = 1/(1 + d_n·d).
    """
    total = c = torch.ones_like(x)
    d = torch.zeros_like(x)
    going = torch.ones_like(x, dtype=torch.bool)
    for n in range(1, _STEPS):
        m = n // 2
        if n % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        c = _not_zero(1 + term / c)
        d = 1 / _not_zero(1 + term * d)
        total = total.where(~going, total * c * d)
        going = going & ((c * d - 1).abs() > _EPS)
        if not bool(going.any()):
            break
    return 1 / total


def _not_zero(values: Tensor) -> Tensor:
    return values.where(values != 0, torch.finfo(values.dtype).tiny)
