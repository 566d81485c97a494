"""The random numbers of the kernels by operations of torch: on any device, for any type.

`kernels/philox.h` and `kernels/runs.h` say how they are made and how they lie.
"""

import math

import torch
from torch import Tensor

BLOCKS = 16  # of a tile
WORDS = 4 * BLOCKS
HALVES = 2 * WORDS
HIGH_HALVES, LOW_HALVES, FOR_NORMALS = range(3)

_LOW = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: int) -> list[Tensor]:
    """Philox4x32-7 (Salmon et al. 2011) of words as int64."""
    x = list(counter)
    keys = [key & _LOW, key >> 32 & _LOW]
    for _ in range(7):
        p, q = x[0] * _MULTIPLIERS[0], x[2] * _MULTIPLIERS[1]
        x = [
            (q >> 32 & _LOW) ^ (x[1] ^ keys[0]),
            q & _LOW,
            (p >> 32 & _LOW) ^ (x[3] ^ keys[1]),
            p & _LOW,
        ]
        keys = [(k + step) & _LOW for k, step in zip(keys, _STEPS, strict=True)]
    return x


def tiles(
    key: int, first: int, draws: int, purpose: int, count: int, device: torch.device
) -> Tensor:
    """Return the words of some tiles: pairs of words (draws, count, 2, BLOCKS) as int64."""
    numbers = torch.arange(count * BLOCKS, device=device).view(1, count, BLOCKS)
    which = torch.arange(first, first + draws, device=device).view(-1, 1, 1)
    words = philox((numbers & _LOW, numbers >> 32, which & _LOW, purpose + (which >> 32 << 2)), key)
    a, b, c, d = words
    return torch.stack([a | b << 32, c | d << 32], 2)


def halves(
    key: int, first: int, draws: int, purpose: int, size: int, device: torch.device
) -> Tensor:
    """Return 16-bit halves of entries, as int64: (draws, size)."""
    pairs = tiles(key, first, draws, purpose, -(-size // HALVES), device)
    own = pairs.flatten(1).view(torch.int16)[:, :size]
    return own.long() & 0xFFFF


def bits(key: int, first: int, draws: int, size: int, device: torch.device) -> Tensor:
    """Return 32 random bits of entries, as int64: (draws, size)."""
    high, low = (
        halves(key, first, draws, purpose, size, device) for purpose in (HIGH_HALVES, LOW_HALVES)
    )
    return high << 16 | low


def uniform(
    key: int, first: int, draws: int, size: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return uniform numbers in [0, 1): 24 bits of each entry, or all 32 as float64."""
    own = bits(key, first, draws, size, device)
    if dtype == torch.float64:
        return own.double() * 2.0**-32
    return ((own >> 8).float() * 2.0**-24).to(dtype)


def normal(
    key: int, first: int, draws: int, size: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return standard normal numbers by Box and Muller (1958)."""
    pairs = tiles(key, first, draws, FOR_NORMALS, -(-size // WORDS), device)
    first_words, second_words = (
        pairs[:, :, k].contiguous().view(torch.int32).long() & _LOW for k in (0, 1)
    )  # (draws, tiles, 32)
    work = torch.float64 if dtype == torch.float64 else torch.float32
    radius = (((first_words >> 1).to(work) + 0.5) * 2.0**-31).log().mul(-2).sqrt()
    place = (second_words << 2 & _LOW).bitwise_xor(2**31).sub(2**31)  # with a sign
    angle = place.to(work) * (math.pi / 2 * 2.0**-32)
    quarter = second_words >> 30
    sine, cosine = angle.sin(), angle.cos()
    odd = quarter % 2 == 1
    x, y = torch.where(odd, sine, cosine), torch.where(odd, cosine, sine)
    one = radius * torch.where((quarter == 1) | (quarter == 2), -x, x)
    other = radius * torch.where(quarter >= 2, -y, y)
    return torch.cat([one, other], 2).flatten(1)[:, :size].to(dtype)


def limit(keep: Tensor) -> Tensor:
    """Return the largest 32 bits that are kept, by rate, as int64; −1 for a rate of zero."""
    kept = (keep * 2.0**32).round().long().clamp(max=2**32)  # the product is exact
    return torch.where(keep > 0, kept.clamp(min=1), 0) - 1
