"""Random numbers that are a function of where they stand, for tensors whose shape may grow.

The number at coordinates (i, j, …) is the same in a tensor of any shape that has them: a longer
sequence begins with the noise of a shorter one, along however many axes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dubio.noise.float64 import has_float64

STEP = -0x61C8864680B583EB  # splitmix64's, as a signed number


def uniform_by_coordinates(seeds: Sequence[int], shape: torch.Size, like: Tensor) -> Tensor:
    """Return uniform numbers in [0, 1) for several seeds, as float64 if there is one: (S, *shape).

    Args:
        seeds: One for each draw.
        shape: The shape for one draw.
        like: Says on which device; the numbers of one without float64 are made on the CPU, and
            are float32.
    """
    if not has_float64(like.device):
        return uniform_at(torch.tensor(seeds), shape).float().to(like.device)
    return uniform_at(torch.tensor(seeds, device=like.device), shape)


def uniform_at(seeds: Tensor, shape: torch.Size) -> Tensor:
    """Return the same for seeds that are a tensor of integers, (S,)."""
    state = mixed(seeds).view(-1, *[1] * len(shape))
    for axis, size in enumerate(shape):
        steps = torch.arange(1, size + 1, device=seeds.device) * STEP
        state = mixed(state + steps.view(-1, *[1] * (len(shape) - 1 - axis)))
    return _shifted(state, 11).double() * 2.0**-53


def mixed(state: Tensor) -> Tensor:
    """splitmix64's finaliser, entry by entry."""
    state = (state ^ _shifted(state, 30)) * -0x40A7B892E31B1A47
    state = (state ^ _shifted(state, 27)) * -0x6B2FB644ECCEEE15
    return state ^ _shifted(state, 31)


def _shifted(state: Tensor, bits: int) -> Tensor:
    """To the right, with zeros coming in."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)
