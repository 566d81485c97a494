"""Random numbers that are a pure function of (seed, site, draw).

Nothing here keeps a position in a stream, so the numbers of a draw do not depend on which other
draws are asked for with it: the same bits for any chunk size.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from dubio.noise.bits import Generators, fill_bernoulli

_WORD = (1 << 64) - 1

# So many entries of a row come from one seed, and more from further ones: then threads can share
# the work, and the numbers are the same for any number of threads.
BLOCK = 2**17


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
        """Some of the draws."""
        return replace(self, indices=self.indices[start:stop])

    def for_batch(self, index: int) -> Self:
        """The numbers for the index-th batch of a stream: the same if shared, else fresh."""
        if self.shared or index == 0:
            return self
        return replace(self, seed=mix(self.seed, -1, index))

    def bernoulli(
        self, site: tuple[int, ...], keep: float, shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Zeros and ones with ``P(1) = keep``, in the dtype and on the device of ``like``."""
        masks = like.new_empty((len(self.indices), shape.numel()))
        return fill_bernoulli(masks, keep, self._generators(site, like)).view(-1, *shape)

    def uniform(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1)."""  # (S, *shape)
        return self._fill(site, shape, like, lambda row, g: row.uniform_(generator=g))

    def normal(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Standard normal numbers."""  # (S, *shape)
        return self._fill(site, shape, like, lambda row, g: row.normal_(generator=g))

    def seeds(self, *site: int) -> list[int]:
        """One 32-bit seed per draw at a site; torch's CPU generator uses no more bits."""
        return [mix(self.seed, *site, index) & 0xFFFFFFFF for index in self.indices]

    def _generators(self, site: tuple[int, ...], like: Tensor) -> Generators:
        return Generators(self.seeds(*site), like.device)

    def _fill(
        self,
        site: tuple[int, ...],
        shape: torch.Size,
        like: Tensor,
        fill: Callable[[Tensor, torch.Generator], Tensor],
    ) -> Tensor:
        numbers = like.new_empty((len(self.indices), shape.numel()))
        blocks = [
            (block, seed if index == 0 else mix(seed, index) & 0xFFFFFFFF)
            for row, seed in zip(numbers, self.seeds(*site), strict=True)
            for index, block in enumerate([row] if len(row) <= BLOCK else row.split(BLOCK))
        ]
        if like.device.type == "cpu" and torch.get_num_threads() > 1 and numbers.numel() > BLOCK:
            _in_threads(blocks, fill)
        else:
            generator = torch.Generator(like.device)
            for block, seed in blocks:
                fill(block, generator.manual_seed(seed))
        return numbers.view(-1, *shape)


def _in_threads(
    blocks: list[tuple[Tensor, int]], fill: Callable[[Tensor, torch.Generator], Tensor]
) -> None:
    """Fill blocks in as many threads as torch has: its random numbers are serial."""
    inference = torch.is_inference_mode_enabled()

    def work(job: tuple[Tensor, int]) -> None:
        block, seed = job
        with torch.inference_mode(inference):
            fill(block, torch.Generator().manual_seed(seed))

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(work, blocks))


def mix(*words: int) -> int:
    """Hash integers to 64 bits (splitmix64's finaliser over a running state)."""
    state = 0
    for word in words:
        state = ((state ^ (word & _WORD)) + 0x9E3779B97F4A7C15) & _WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
        state ^= state >> 31
    return state
