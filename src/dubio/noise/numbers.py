"""Random numbers that are a pure function of (seed, site, draw).

Nothing here keeps a position in a stream, so the numbers of a draw do not depend on which other
draws are asked for with it: the same bits for any chunk size. Small noises of consecutive draws
come from one seed, since seeding costs more than the numbers: whoever asks for one of these draws
pays for some of its neighbours, and for `TOGETHER` numbers at most.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from dubio.noise import generators
from dubio.noise.bits import Generators, fill_bernoulli

_WORD = (1 << 64) - 1

# So many entries of a row come from one seed, and more from further ones: then threads can share
# the work, and the numbers are the same for any number of threads.
BLOCK = 2**17

# So many numbers of consecutive draws come from one seed.
TOGETHER = 1024


class _Own(threading.local):
    """What a thread has for itself."""

    def __init__(self) -> None:
        self.generator = torch.Generator()


_own = _Own()


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

    def alone(self) -> Self:
        """The numbers of the first of all draws."""
        return replace(self, indices=range(1))

    def for_batch(self, index: int) -> Self:
        """The numbers for the index-th batch of a stream: the same if shared, else fresh."""
        if self.shared or index == 0:
            return self
        return replace(self, seed=mix(self.seed, -1, index))

    def bernoulli(
        self, site: tuple[int, ...], keep: float, shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Zeros and ones with ``P(1) = keep``, in the dtype and on the device of ``like``."""
        size = shape.numel()
        together, blocks = self._blocks(size)
        if together > 1 and len(blocks) == 1 and like.is_cpu and 0.0 < keep < 1.0:
            return self._few(site, keep, shape, like, together)
        masks = like.new_empty((len(blocks), together * size))
        generators = Generators(self._seeds(site, blocks), like.device)
        return self._asked(fill_bernoulli(masks, keep, generators), together, shape)

    def _few(
        self, site: tuple[int, ...], keep: float, shape: torch.Size, like: Tensor, together: int
    ) -> Tensor:
        """The same for draws of one block, as far as they are needed: a CPU draws in order."""
        first, size = self.indices[0] % together, shape.numel()
        draws = len(self.indices)
        seed = mix(self.seed, *site, self.indices[0] // together) & 0xFFFFFFFF
        uniform = torch.empty((first + draws) * size, dtype=torch.float64)
        uniform.uniform_(generator=_own.generator.manual_seed(seed))
        masks = like.new_empty((draws, *shape))
        return torch.lt(uniform[first * size :].view(draws, *shape), keep, out=masks)

    def uniform(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1)."""  # (S, *shape)
        return self._fill("uniform_", site, shape, like)

    def normal(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Standard normal numbers."""  # (S, *shape)
        return self._fill("normal_", site, shape, like)

    def seeds(self, *site: int) -> list[int]:
        """One 32-bit seed per draw at a site; torch's CPU generator uses no more bits."""
        return self._seeds(site, self.indices)

    def _seeds(self, site: tuple[int, ...], blocks: range) -> list[int]:
        state = mix(self.seed, *site)
        return [mix(block, state=state) & 0xFFFFFFFF for block in blocks]

    def _blocks(self, size: int) -> tuple[int, range]:
        """How many draws of so many numbers have a seed together, and the blocks of these."""
        together = max(1, TOGETHER // max(1, size))
        return together, range(self.indices[0] // together, self.indices[-1] // together + 1)

    def _asked(self, made: Tensor, together: int, shape: torch.Size) -> Tensor:  # (S, *shape)
        """The draws that were asked for, among those of their blocks."""
        made = made.view(made.shape[0] * together, *shape)
        start, draws = self.indices[0] % together, len(self.indices)
        return made if made.shape[0] == draws else made[start : start + draws]

    def _fill(
        self, method: str, site: tuple[int, ...], shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Numbers that a method of torch writes over a tensor."""
        size = shape.numel()
        together, blocks = self._blocks(size)
        if len(blocks) == 1 and together * size <= BLOCK and like.is_cpu:
            generator = _own.generator.manual_seed(mix(self.seed, *site, blocks[0]) & 0xFFFFFFFF)
            end = self.indices[-1] % together + 1
            rows = end if method == "uniform_" else together  # uniform numbers come one by one
            numbers = torch.empty((rows, *shape), dtype=like.dtype)
            getattr(numbers, method)(generator=generator)
            draws = len(self.indices)
            return numbers if rows == draws else numbers[end - draws : end]
        numbers = like.new_empty((len(blocks), together * size))
        jobs = [
            (part, seed if index == 0 else mix(seed, index) & 0xFFFFFFFF)
            for row, seed in zip(numbers, self._seeds(site, blocks), strict=True)
            for index, part in enumerate([row] if len(row) <= BLOCK else row.split(BLOCK))
        ]
        if like.is_cpu and torch.get_num_threads() > 1 and numbers.numel() > BLOCK:
            _in_threads(method, jobs)
        else:
            generator = generators.on(like.device)
            for part, seed in jobs:
                getattr(part, method)(generator=generator.manual_seed(seed))
        return self._asked(numbers, together, shape)


def _in_threads(method: str, jobs: list[tuple[Tensor, int]]) -> None:
    """Fill tensors in as many threads as torch has: its random numbers are serial."""
    inference = torch.is_inference_mode_enabled()

    def work(job: tuple[Tensor, int]) -> None:
        part, seed = job
        with torch.inference_mode(inference):
            getattr(part, method)(generator=torch.Generator().manual_seed(seed))

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(work, jobs))


def mix(*words: int, state: int = 0) -> int:
    """Hash integers to 64 bits (splitmix64's finaliser over a running state)."""
    for word in words:
        state = ((state ^ (word & _WORD)) + 0x9E3779B97F4A7C15) & _WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
        state ^= state >> 31
    return state
