"""Random numbers that a graph makes by itself from a seed that is one of its inputs.

A number is a hash of (seed, place, draw, coordinates): integer operations that every runtime has,
and no state. The bits in the graph are those in torch; normal numbers agree up to the rounding of
logarithm and cosine.
"""

import math

import torch
from torch import Tensor

from dubio.draws.given import NoiseIndex
from dubio.exporting.noise_inputs import NoiseInput
from dubio.noise.coordinates import STEP, mixed, uniform_at
from dubio.noise.numbers import mix

_SECOND = -5  # behind a place: the other uniform numbers that normal ones take


def hashed_noise(seed: Tensor, noise: NoiseInput, draws: int, rows: int) -> Tensor:  # (S, …)
    """Return one noise of a network for some draws, from an integer of 64 bits."""
    shape, dtype = noise.shape_for(rows), noise.dtype
    u = _uniform(seed, noise.place, draws, shape)
    match noise.distribution:
        case "bernoulli":
            assert noise.keep is not None
            return (u < noise.keep).to(dtype)
        case "uniform":  # with no more bits than fit the type, or some would become 1
            return u if dtype == torch.float64 else ((u * 2**24).floor() * 2.0**-24).to(dtype)
        case "normal":  # √(−2 log(1 − u)) · cos(2πv) (Box and Muller 1958)
            v = _uniform(seed, (*noise.place, _SECOND), draws, shape)
            return ((-2 * (1 - u).log()).sqrt() * (2 * math.pi * v).cos()).to(dtype)


def _uniform(
    seed: Tensor, place: NoiseIndex, draws: int, shape: torch.Size
) -> Tensor:  # (S, *shape)
    """In [0, 1), as float64."""
    of_draws = torch.tensor([_signed(mix(*place, draw)) for draw in range(draws)])
    return uniform_at(mixed(seed + STEP) + of_draws, shape)


def _signed(word: int) -> int:
    """Return 64 bits as torch's integers have them."""
    return word - 2**64 if word >= 2**63 else word
