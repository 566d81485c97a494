"""The random numbers of members: each has streams of its own, whoever is trained beside it."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Self, final

import numpy as np
import torch
from numpy.random import SFC64, Generator, SeedSequence
from torch import Tensor

from dubio.native import stream as native
from dubio.population.given import Continuous

_DISTRIBUTIONS: tuple[Continuous, ...] = ("uniform", "normal")
_ROWS_AHEAD = 2048  # of a data order, drawn at a time
_BLOCK = 1024  # numbers of a draw


class StreamUse(IntEnum):
    """What the streams of one seed are for, which tells them apart."""

    TRAINING = 0
    VALIDATION = 1
    PREDICTION = 2


def seeds_of_predictions(
    seeds: Sequence[int],
    generator: torch.Generator | None,
    own_seeds: Sequence[int] | None = None,
) -> list[tuple[int, ...]]:
    """Return what streams of predictions start from: the seeds of members, and others.

    Args:
        seeds: Of the members.
        generator: Source of one more, the same for all.
        own_seeds: One more for each member, in place of it.
    """
    if own_seeds is not None:
        pairs = zip(seeds, own_seeds, strict=True)
        return [(own, StreamUse.PREDICTION, also) for own, also in pairs]
    device = None if generator is None else generator.device
    drawn = int(torch.randint(2**63 - 1, (), generator=generator, device=device))
    return [(own, StreamUse.PREDICTION, drawn) for own in seeds]


@final
class MemberStream:
    """The random numbers of one member: its data order, uniform numbers and normal ones.

    They are three streams, so that how much of one is drawn at a time changes nothing in the
    others, nor in itself. Uniform and normal numbers are those of a `dubio.native` stream, block
    after block as draw after draw, and all there is to remember is how many were taken.
    """

    def __init__(self, *seeds: int) -> None:
        self._seeds = seeds
        self._generator: Generator | None = None
        self._keys: dict[Continuous, int] = {}
        self._taken: dict[Continuous, int] = dict.fromkeys(_DISTRIBUTIONS, 0)
        self._ahead = np.empty(0, dtype=np.int64)

    @property
    def _order(self) -> Generator:
        """The generator of data orders, made when it is first needed."""
        if self._generator is None:
            self._generator = Generator(SFC64(SeedSequence(self._seeds, spawn_key=(0,))))
        return self._generator

    def rows(self, count: int, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the next rows of an endless sequence of permutations."""
        if len(self._ahead) < count:
            missing = max(count, _ROWS_AHEAD) - len(self._ahead)
            more = [self._order.permutation(rows) for _ in range(-(-missing // len(rows)))]
            self._ahead = np.concatenate([self._ahead, *more])
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken

    def state_dict(self) -> dict[str, Tensor]:
        """Return where the streams are."""
        return {
            "order": _words(self._order),
            "ahead": torch.from_numpy(self._ahead.copy()),
            "taken": torch.tensor([self._taken[name] for name in _DISTRIBUTIONS]),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from there."""
        if "taken" not in state:
            raise ValueError(
                "state: expected how many random numbers every member has taken, got the "
                "generators of an earlier version of dubio; train again from the start"
            )
        *numbers, half, has_half = state["order"].numpy().view(np.uint64).tolist()
        self._order.bit_generator.state = {
            "bit_generator": "SFC64",
            "state": {"state": np.array(numbers, dtype=np.uint64)},
            "has_uint32": has_half,
            "uinteger": half,
        }
        self._ahead = state["ahead"].numpy().copy()
        self._taken = dict(zip(_DISTRIBUTIONS, state["taken"].tolist(), strict=True))

    def fill(self, distribution: Continuous, out: Tensor) -> None:
        """Write the next numbers of a distribution over a tensor."""
        start, size = self._taken[distribution], out.numel()
        self._taken[distribution] += size
        first, skipped = divmod(start, _BLOCK)
        blocks = native.Stream(self._key(distribution), first, -(-(skipped + size) // _BLOCK))
        draw = blocks.uniform if distribution == "uniform" else blocks.normal
        numbers = draw(torch.Size([_BLOCK]), out).view(-1)
        out.copy_(numbers[skipped : skipped + size].view(out.shape))

    def _key(self, distribution: Continuous) -> int:
        if distribution not in self._keys:
            which = 1 + _DISTRIBUTIONS.index(distribution)
            (key,) = SeedSequence(self._seeds, spawn_key=(which,)).generate_state(1, np.uint64)
            self._keys[distribution] = int(key)
        return self._keys[distribution]


def _words(generator: Generator) -> Tensor:
    """Return the state of a generator as whole numbers of 64 bits."""
    state: Any = generator.bit_generator.state
    words = [*state["state"]["state"].tolist(), state["uinteger"], state["has_uint32"]]
    return torch.from_numpy(np.array(words, dtype=np.uint64).view(np.int64))


@final
class Streams:
    """The streams of several members."""

    def __init__(self, streams: Sequence[MemberStream]) -> None:
        self._streams = list(streams)

    def __len__(self) -> int:
        return len(self._streams)

    def take(self, members: Sequence[int]) -> Self:
        """Return those of some members; they are the same streams."""
        return type(self)([self._streams[m] for m in members])

    def state_dict(self) -> list[dict[str, Tensor]]:
        """Return where all streams are."""
        return [stream.state_dict() for stream in self._streams]

    def load_state_dict(self, states: list[dict[str, Tensor]]) -> None:
        """Go on from there."""
        for stream, state in zip(self._streams, states, strict=True):
            stream.load_state_dict(state)

    def rows(self, count: int, rows: Sequence[np.ndarray[Any, Any]]) -> Tensor:  # (M, count)
        """Return the next rows of each member."""
        out = np.empty((len(self), count), dtype=np.int64)
        for stream, own, taken in zip(self._streams, rows, out, strict=True):
            taken[:] = stream.rows(count, own)
        return torch.from_numpy(out)

    def noise(
        self, times: int, sizes: dict[Continuous, int], like: Tensor
    ) -> dict[Continuous, Tensor]:
        """Return the next noise of each member, for several passes: (M, times, n) for a size n."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        made: dict[Continuous, Tensor] = {}
        for distribution in _DISTRIBUTIONS:
            if size := sizes.get(distribution, 0):
                numbers = torch.empty((len(self), times, size), dtype=dtype)
                for stream, own in zip(self._streams, numbers, strict=True):
                    stream.fill(distribution, own)
                made[distribution] = numbers.to(like.device)
        return made
