"""Random numbers that are a pure function of (seed, site, draw).

Nothing here keeps a position in a stream, so the numbers of a draw do not depend on which other
draws are asked for with it: the same bits for any chunk size.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from dubio.native.stream import Stream

_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Numbers:
    """The random numbers of consecutive draws.

    Attributes:
        seed: What tells these numbers from others.
        indices: Which draws.
        shared: Whether all rows of a batch share the numbers of a draw.
    """

    seed: int
    indices: range
    shared: bool

    def part(self, start: int, stop: int) -> Self:
        """Return some of the draws."""
        return replace(self, indices=self.indices[start:stop])

    def alone(self) -> Self:
        """Return the numbers of the first of all draws."""
        return replace(self, indices=range(1))

    def for_batch(self, index: int) -> Self:
        """Return the numbers for the index-th batch of a stream: the same if shared, else fresh."""
        if self.shared or index == 0:
            return self
        return replace(self, seed=mix(self.seed, -1, index))

    def stream(self, site: tuple[int, ...]) -> Stream | None:
        """Return the undrawn numbers at a site; None if they do not come from the seed."""
        return self._at(site)

    def bernoulli(
        self, site: tuple[int, ...], keep: float, shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Return zeros and ones with ``P(1) = keep``, in the dtype and device of ``like``."""
        return self._at(site).bernoulli(keep, shape, like)

    def uniform(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Return uniform numbers in [0, 1)."""  # (S, *shape)
        return self._at(site).uniform(shape, like)

    def normal(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Return standard normal numbers."""  # (S, *shape)
        return self._at(site).normal(shape, like)

    def seeds(self, *site: int) -> list[int]:
        """Return one 32-bit seed per draw at a site; torch's CPU generator uses no more bits."""
        state = mix(self.seed, *site)
        return [mix(draw, state=state) & 0xFFFFFFFF for draw in self.indices]

    def _at(self, site: tuple[int, ...]) -> Stream:
        return Stream(mix(self.seed, *site), self.indices.start, len(self.indices))


def mix(*words: int, state: int = 0) -> int:
    """Hash integers to 64 bits (splitmix64's finaliser over a running state)."""
    for word in words:
        state = ((state ^ (word & _WORD)) + 0x9E3779B97F4A7C15) & _WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
        state ^= state >> 31
    return state
