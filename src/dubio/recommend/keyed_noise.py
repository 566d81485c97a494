"""Noise that is a function of keys, not of the order in which it is drawn.

A user has a seed, and every number that is drawn for the user is a hash of the seed and of the
number's place, such as an item. So the numbers are the same in whatever batch the user stands, and
entries that nobody needs cost nothing. The hash is splitmix64 (Steele, Lea & Flood 2014), which
turns a counter into 64 random bits.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Seeds: TypeAlias = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def hashed(seeds: Seeds, places: npt.ArrayLike) -> Seeds:
    """Return 64 random bits for each pair of a seed and a place, an integer; both are broadcast."""
    with np.errstate(over="ignore"):  # arithmetic is modulo 2⁶⁴
        place = np.asarray(places).astype(np.uint64)
        bits = np.asarray(_mixed(seeds) + _GOLDEN * (place + np.uint64(1)))
        return _mixed(bits)


def uniform(seeds: Seeds, places: npt.ArrayLike) -> Tensor:
    """Return numbers from U[0, 1), float32, a function of seed and place.

    Args:
        seeds: One for each user, (B, 1), or for each stored entry of a CSR matrix.
        places: Integers, such as items. Two uses of one seed need different places.
    """
    bits = hashed(seeds, places) >> np.uint64(40)
    return torch.from_numpy(np.multiply(bits, 2.0**-24, dtype=np.float32))


def normal(seeds: Seeds, places: npt.ArrayLike) -> Tensor:
    """Return numbers from N(0, 1), float32, a function of seed and place as in `uniform`."""
    bits = hashed(seeds, places) >> np.uint64(12)
    numbers: Tensor = torch.special.ndtri(torch.from_numpy((bits + 0.5) * 2.0**-52))
    return numbers.float()


def user_keys(users: Sequence[Any] | npt.NDArray[Any]) -> Seeds:
    """Return a key for each user that is the same in every process.

    Integers from 0 to 2⁶⁴ − 1 are their own keys. Other ids are hashed: integers beyond, floats,
    strings, bytes, and tuples of all these. Ids that are equal in Python have the same key.
    """
    array = users if isinstance(users, np.ndarray) else None
    if array is not None and array.dtype.kind in "iu" and not (array < 0).any():
        return array.astype(np.uint64)
    return np.array([key(user) for user in users], np.uint64)


def draw_seeds(seed: int, keys: Seeds, draw: int) -> Seeds:
    """Return the seeds of one draw, by user."""
    return hashed(hashed(np.full(len(keys), seed, np.uint64), keys), draw)


def seed_of(generator: torch.Generator | int | None) -> int:
    """Return a seed of 64 bits: the integer if it fits, a generator's next number, or 0."""
    if generator is None:
        return 0
    if isinstance(generator, torch.Generator):
        return int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device))
    if isinstance(generator, bool) or not isinstance(generator, int | np.integer):
        raise TypeError(
            f"generator: expected a torch.Generator, an integer or None, got "
            f"{type(generator).__name__}; an integer gives the same draws every time"
        )
    return key(generator)


def key(user: Any) -> int:
    """Return 64 bits for an id."""
    if isinstance(user, float | np.floating) and float(user).is_integer():
        user = int(user)
    if isinstance(user, int | np.integer):
        number = int(user)
        return number if 0 <= number < 2**64 else _digest(b"i%d" % number)
    return _digest(_content(user))


def _content(user: Any) -> bytes:
    if isinstance(user, str):
        return b"s" + user.encode()
    if isinstance(user, bytes):
        return b"b" + user
    if isinstance(user, float | np.floating) and not np.isnan(user):
        return b"f" + float(user).hex().encode()
    if isinstance(user, tuple):
        return b"t" + b"".join(key(part).to_bytes(8, "little") for part in user)
    raise TypeError(
        f"users: expected ids that are numbers, strings, bytes or tuples of these, got {user!r} of "
        f"{type(user).__name__}; give a name that stays the same, such as str(user)"
    )


def _digest(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def _mixed(bits: Seeds) -> Seeds:
    """Mix bits by the finaliser of splitmix64."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
        bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
        return np.asarray(bits ^ (bits >> np.uint64(31)))
