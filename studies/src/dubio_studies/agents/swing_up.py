"""What an agent knows of the cart-pole beforehand: features, reward and where it starts."""

from collections.abc import Sequence

import torch
from torch import Tensor

STATE_SIZE, FEATURE_SIZE = 4, 5
COST_WIDTH = 0.25  # m
START_DEVIATION = 0.1
MAX_FORCE = 10.0  # N
UNITS = (1.0, 3.0, 6.0, 1.0, 1.0)
"""What the policy measures features in: m, m/s, rad/s, and sine and cosine as they are."""


def features(states: Tensor) -> Tensor:  # (..., 4) -> (..., 5)
    """(x, v, ω, θ) as (x, v, ω, sin θ, cos θ)."""
    angle = states[..., 3:]
    return torch.cat([states[..., :3], angle.sin(), angle.cos()], dim=-1)


def squared_distances(states: Tensor, length: float = 0.5) -> Tensor:  # (..., 4) -> (...)
    """Of the tip of the pole from where it is when it stands."""
    across = states[..., 0] + length * states[..., 3].sin()
    above = length * states[..., 3].cos() + length
    return across.square() + above.square()


def rewards(
    states: Tensor, widths: Sequence[float] = (COST_WIDTH,), length: float = 0.5
) -> Tensor:  # (..., 4) -> (...)
    """The mean over widths w of exp(−d² / (2w²)); the world's own reward has w = 0.25 alone.

    Wider ones are felt from afar; the authors of PILCO, too, may mix several (`loss_cp.m`).
    """
    squares = squared_distances(states, length)
    parts = [(squares / (-2 * width**2)).exp() for width in widths]
    return torch.stack(parts).mean(0) if len(parts) > 1 else parts[0]
