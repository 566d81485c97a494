"""The source of random numbers: a generator, or an int seed."""

from numbers import Integral
from typing import TypeAlias

import torch

from dubio.noise import generators

Seed: TypeAlias = torch.Generator | int | None


def as_generator(seed: Seed, device: torch.device | None = None) -> torch.Generator | None:
    """Return the generator that is meant; None for the global one of torch.

    Args:
        seed: An int n is ``torch.Generator().manual_seed(n)``: the same numbers every time.
        device: Where a generator for an int is to be; the CPU unless given.
    """
    if seed is None or isinstance(seed, torch.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(
            f"generator: expected a torch.Generator, an int or None, got {type(seed).__name__}; "
            f"try generator=0, or torch.Generator().manual_seed(0)"
        )
    number = int(seed)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"generator: expected an int of 64 bits, got {number}; try a smaller one")
    return generators.on(device or "cpu").manual_seed(number)
