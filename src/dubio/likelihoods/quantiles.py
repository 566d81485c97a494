"""Quantiles over draws: empirical ones, and those of a mixture of Gaussians."""

import math
from typing import SupportsFloat

import torch
from torch import Tensor


def check_probability(name: str, value: float, advice: str) -> None:
    """Complain about what is not strictly between 0 and 1."""
    scalar = isinstance(value, SupportsFloat) and getattr(value, "ndim", 0) == 0
    if not (scalar and 0 < value < 1):
        raise ValueError(f"{name}: expected a probability in (0, 1), got {value!r}; {advice}")


def _check_level(q: float) -> None:
    if not 0 <= q <= 1:
        raise ValueError(f"q: expected a level in [0, 1], got {q}; divide percentages by 100")


def empirical_quantile(values: Tensor, q: float) -> Tensor:
    """Linear interpolation between the order statistics at q (S - 1), numpy's default."""
    _check_level(q)
    ordered = values.sort(dim=0).values  # (S, B, *E)
    place = q * (len(values) - 1)
    below = math.floor(place)
    return torch.lerp(ordered[below], ordered[math.ceil(place)], place - below)


def mixture_quantile(mean: Tensor, std: Tensor, q: float) -> Tensor:
    """Solves 1/S sum_t Phi((y - mean_t) / std_t) = q for y by bisection.

    The quantiles of the components bracket that of their mixture. Phi(z) = erfc(-z / sqrt 2) / 2
    keeps its relative precision in the lower half; the upper half is mirrored to it. Sums are taken
    in float64: rounded, they would depend on the shape of the batch, and so would the quantile.
    """
    _check_level(q)
    if q > 0.5:
        return -mixture_quantile(-mean, std, 1 - q)
    z = float(torch.special.ndtri(torch.tensor(q, dtype=torch.float64)))
    parts = mean + z * std  # (S, B, *E)
    low, high = parts.amin(0), parts.amax(0)
    eps, scale = torch.finfo(mean.dtype).eps, std.amin(0)
    while bool((wide := high - low > eps * torch.maximum(scale, high.abs())).any()):
        middle = low + (high - low) / 2
        tails = torch.erfc((mean - middle) / (math.sqrt(2) * std))
        below = tails.mean(0, dtype=torch.float64) < 2 * q
        # what is narrow enough stays, so that no row depends on the others
        low = torch.where(below & wide, middle, low)
        high = torch.where(below | ~wide, high, middle)
    return high  # (B, *E)
