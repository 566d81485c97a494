"""What agents remember of the past, and draw batches from."""

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Transitions(NamedTuple):
    """Steps of the past; M agents have K networks each, agents first."""

    x: Tensor  # (M · K, B, D)
    actions: Tensor  # (M · K, B)
    rewards: Tensor  # (M · K, B)
    ended: Tensor  # (M · K, B), 1 where the episode ended with this step
    next_x: Tensor  # (M · K, B, D)


@final
class Replay:
    """The memories of M agents, each with random numbers of its own.

    Once a memory is full, a new transition takes the place of a random old one, as in ConvNetJS
    (`deepqlearn.js`). Batches are drawn with replacement.

    Args:
        seeds: Of each agent.
        capacity: Transitions that each of them can keep.
        dtype: Of what is kept.

    Attributes:
        counts: How many transitions each agent has.  # (M,)
    """

    def __init__(self, seeds: Sequence[int], capacity: int, dtype: torch.dtype) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: expected at least 1, got {capacity}.")
        self.counts = np.zeros(len(seeds), dtype=np.int64)
        self._capacity = capacity
        self._dtype = dtype
        self._sources = [np.random.default_rng((seed, 1)) for seed in seeds]
        self._kept: Transitions | None = None  # (M · capacity, …)

    def add(
        self,
        x: Tensor,  # (M, D)
        actions: NDArray[np.int64],  # (M,)
        rewards: NDArray[np.float64],  # (M,)
        ended: NDArray[np.bool_],  # (M,)
        next_x: Tensor,  # (M, D)
        which: NDArray[np.bool_],  # (M,)
    ) -> None:
        """Keep one transition of each of those agents that did a step."""
        kept = self._kept if self._kept is not None else self._room_for(x)
        agents = np.flatnonzero(which)
        slots = [
            self.counts[agent]
            if self.counts[agent] < self._capacity
            else self._sources[agent].integers(self._capacity)
            for agent in agents
        ]
        rows = torch.from_numpy(agents * self._capacity + np.array(slots, dtype=np.int64))
        chosen = torch.from_numpy(agents)
        new = (x, torch.from_numpy(actions), torch.from_numpy(rewards), torch.from_numpy(ended))
        for old, found in zip(kept, (*new, next_x), strict=True):
            old[rows] = found[chosen].to(old.dtype)
        self.counts[agents] = np.minimum(self.counts[agents] + 1, self._capacity)

    def sample(self, networks: int, batch_size: int) -> Transitions:
        """A batch for each of K networks of each agent."""
        if self._kept is None or not self.counts.all():
            raise RuntimeError("sample: expected transitions of all agents, got none of some.")
        size = networks * batch_size
        places = np.stack(
            [
                source.integers(n, size=size)
                for source, n in zip(self._sources, self.counts, strict=True)
            ]
        )
        places += self._capacity * np.arange(len(places))[:, None]
        rows = torch.from_numpy(places.reshape(-1))
        shape = (len(places) * networks, batch_size)
        return Transitions(*(old[rows].view(*shape, *old.shape[1:]) for old in self._kept))

    def _room_for(self, x: Tensor) -> Transitions:
        def room(*shape: int) -> Tensor:
            return torch.zeros(len(self.counts) * self._capacity, *shape, dtype=self._dtype)

        self._kept = Transitions(room(*x.shape[1:]), room(), room(), room(), room(*x.shape[1:]))
        return self._kept
