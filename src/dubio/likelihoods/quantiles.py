"""Quantiles over draws: empirical ones, of a mixture of Gaussians, and of any cdf."""

import math
from collections.abc import Callable
from typing import SupportsFloat

import torch
from torch import Tensor

from dubio.noise.float64 import has_float64


def check_probability(name: str, value: float, advice: str) -> None:
    """Raise an error unless this is strictly between 0 and 1."""
    scalar = isinstance(value, SupportsFloat) and getattr(value, "ndim", 0) == 0
    if not (scalar and 0 < value < 1):
        raise ValueError(f"{name}: expected a probability in (0, 1), got {value!r}; {advice}")


def check_level(q: float) -> None:
    """Raise an error unless this is a quantile level."""
    if not 0 <= q <= 1:
        raise ValueError(f"q: expected a level in [0, 1], got {q}; divide percentages by 100")


def empirical_quantile(values: Tensor, q: float) -> Tensor:
    """Linear interpolation between the order statistics at q (S - 1), numpy's default."""
    check_level(q)
    ordered = values.sort(dim=0).values  # (S, B, *E)
    place = q * (len(values) - 1)
    below = math.floor(place)
    return torch.lerp(ordered[below], ordered[math.ceil(place)], place - below)


def mixture_quantile(mean: Tensor, std: Tensor, q: float) -> Tensor:
    """Solve 1/S sum_t Phi((y - mean_t) / std_t) = q for y by bisection.

    The quantiles of the components bracket that of their mixture. Phi(z) = erfc(-z / sqrt 2) / 2
    keeps its relative precision in the lower half; the upper half is mirrored to it. Sums are taken
    in float64: rounded, they would depend on the shape of the batch, and so would the quantile.
    """
    check_level(q)
    if q > 0.5:
        return -mixture_quantile(-mean, std, 1 - q)
    if not has_float64(mean.device):
        return mixture_quantile(mean.cpu(), std.cpu(), q).to(mean.device)
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


def solve_cdf(
    cdf: Callable[[Tensor], Tensor], levels: Tensor, center: Tensor, reach: Tensor, *, whole: bool
) -> Tensor:
    """Return the least y with cdf(y) >= level, element by element, by bisection in float64.

    The search starts within center ± reach and doubles that until it encloses the level. Elements
    stop by themselves, so that none depends on the others.

    Args:
        cdf: Of values shaped as the levels.
        levels: In [0, 1]; at the ends y is infinite, but 0 for counts at 0.
        center: Near the middle of the distribution.
        reach: How wide it is, about; where that is not known, the search starts with 1.
        whole: Whether y is a whole number from 0.
    """
    inside = (levels > 0) & (levels < 1)
    sought = levels.where(inside, 0.5)
    reach = reach.where(reach.isfinite() & (reach > 0), 1)
    low, high = center - reach, center + reach
    if whole:
        low, high = torch.full_like(low, -1), high.clamp(min=0).ceil()
    else:
        low = _enclosing(lambda y: cdf(y) >= sought, low, -reach)
    high = _enclosing(lambda y: cdf(y) < sought, high, reach.ceil() if whole else reach)
    eps = torch.finfo(low.dtype).eps
    while bool((wide := _apart(low, high, eps * reach, whole)).any()):
        middle = low + (high - low) / 2
        middle = middle.floor() if whole else middle
        below = cdf(middle) < sought
        low = torch.where(below & wide, middle, low)
        high = torch.where(below | ~wide, high, middle)
    least = 0.0 if whole else -math.inf
    return high.where(levels > 0, least).where(levels < 1, math.inf)


def _apart(low: Tensor, high: Tensor, tolerance: Tensor, whole: bool) -> Tensor:
    """Return where the search goes on: the ends are further apart than rounding puts them."""
    if whole:
        return high - low > 1
    middle = low + (high - low) / 2
    return (middle > low) & (middle < high) & (high - low > tolerance)


def _enclosing(beyond: Callable[[Tensor], Tensor], end: Tensor, step: Tensor) -> Tensor:
    """Move an end by steps that double, where the solution lies beyond it."""
    while bool((open_ := beyond(end)).any()):
        if bool(step[open_].isinf().any()):
            raise ValueError(
                "quantile: expected a cdf that goes from 0 to 1, got one that does not; look for "
                "outputs that are NaN or infinite, or for a mistake in cdf"
            )
        end = torch.where(open_, end + step, end)
        step = 2 * step
    return end
