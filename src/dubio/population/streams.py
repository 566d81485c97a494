"""The random numbers of members: each has streams of its own, whoever is trained beside it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import Any, Literal, Self, final

import numpy as np
import torch
from numpy.random import SFC64, Generator, SeedSequence
from torch import Tensor

from dubio.population.given import Continuous

_DISTRIBUTIONS: tuple[Continuous, ...] = ("uniform", "normal")
_STREAMS: tuple[Literal["order"] | Continuous, ...] = ("order", *_DISTRIBUTIONS)
_ROWS_AHEAD = 2048  # of a data order, drawn at a time
_WORTH_THREADS = 2**16  # numbers


class Use(IntEnum):
    """What the streams of one seed are for, which tells them apart."""

    TRAINING = 0
    VALIDATION = 1
    PREDICTION = 2


def seeds_of_predictions(
    seeds: Sequence[int],
    generator: torch.Generator | None,
    own_seeds: Sequence[int] | None = None,
) -> list[tuple[int, ...]]:
    """What streams of predictions start from: the seeds of members, and others.

    Args:
        seeds: Of the members.
        generator: Source of one more, the same for all.
        own_seeds: One more for each member, in place of it.
    """
    if own_seeds is not None:
        pairs = zip(seeds, own_seeds, strict=True)
        return [(own, Use.PREDICTION, also) for own, also in pairs]
    device = None if generator is None else generator.device
    drawn = int(torch.randint(2**63 - 1, (), generator=generator, device=device))
    return [(own, Use.PREDICTION, drawn) for own in seeds]


@final
class Stream:
    """The random numbers of one member: its data order, uniform numbers and normal ones.

    They are three streams, so that how much of one is drawn at a time changes nothing in the
    others, nor in itself: numpy makes one number after the other. They are made when they are
    first needed.
    """

    def __init__(self, *seeds: int) -> None:
        self._seeds = seeds
        self._generators: dict[str, Generator] = {}
        self._ahead = np.empty(0, dtype=np.int64)

    def _generator(self, name: Literal["order"] | Continuous) -> Generator:
        """The generator of a stream; its seed is a child of the stream's."""
        if name not in self._generators:
            child = SeedSequence(self._seeds, spawn_key=(_STREAMS.index(name),))
            self._generators[name] = Generator(SFC64(child))
        return self._generators[name]

    def rows(self, count: int, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The next rows of an endless sequence: one permutation of the rows after the other."""
        if len(self._ahead) < count:
            missing = max(count, _ROWS_AHEAD) - len(self._ahead)
            order = self._generator("order")
            more = [order.permutation(rows) for _ in range(-(-missing // len(rows)))]
            self._ahead = np.concatenate([self._ahead, *more])
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken

    def state_dict(self) -> dict[str, Tensor]:
        """Where the streams are."""
        words = [_words(self._generator(name)) for name in _STREAMS]
        return {"generators": torch.stack(words), "ahead": torch.from_numpy(self._ahead.copy())}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from there."""
        generators = map(self._generator, _STREAMS)
        for generator, words in zip(generators, state["generators"], strict=True):
            *numbers, half, has_half = words.numpy().view(np.uint64).tolist()
            generator.bit_generator.state = {
                "bit_generator": "SFC64",
                "state": {"state": np.array(numbers, dtype=np.uint64)},
                "has_uint32": has_half,
                "uinteger": half,
            }
        self._ahead = state["ahead"].numpy().copy()

    def fill(self, distribution: Continuous, out: np.ndarray[Any, Any]) -> None:
        """Write the next numbers of a distribution over an array."""
        generator = self._generator(distribution)
        if distribution == "uniform":
            generator.random(dtype=out.dtype, out=out)
        else:
            generator.standard_normal(dtype=out.dtype, out=out)


def _words(generator: Generator) -> Tensor:
    """The state of a generator as whole numbers of 64 bits."""
    state: Any = generator.bit_generator.state
    words = [*state["state"]["state"].tolist(), state["uinteger"], state["has_uint32"]]
    return torch.from_numpy(np.array(words, dtype=np.uint64).view(np.int64))


@final
class Streams:
    """The streams of several members."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = list(streams)

    def __len__(self) -> int:
        return len(self._streams)

    def take(self, members: Sequence[int]) -> Self:
        """Those of some members; they are the same streams."""
        return type(self)([self._streams[m] for m in members])

    def state_dict(self) -> list[dict[str, Tensor]]:
        """Where all streams are."""
        return [stream.state_dict() for stream in self._streams]

    def load_state_dict(self, states: list[dict[str, Tensor]]) -> None:
        """Go on from there."""
        for stream, state in zip(self._streams, states, strict=True):
            stream.load_state_dict(state)

    def rows(self, count: int, rows: Sequence[np.ndarray[Any, Any]]) -> Tensor:  # (M, count)
        """The next rows of each member."""
        out = np.empty((len(self), count), dtype=np.int64)
        for stream, own, taken in zip(self._streams, rows, out, strict=True):
            taken[:] = stream.rows(count, own)
        return torch.from_numpy(out)

    def noise(
        self, times: int, sizes: dict[Continuous, int], like: Tensor
    ) -> dict[Continuous, Tensor]:
        """The next noise of each member, for several passes: (M, times, n) for a size n."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        made: dict[Continuous, Tensor] = {}
        for distribution in _DISTRIBUTIONS:
            if size := sizes.get(distribution, 0):
                numbers = torch.empty((len(self), times, size), dtype=dtype)
                self._fill(distribution, numbers.numpy())
                made[distribution] = numbers.to(like.device)
        return made

    def _fill(self, distribution: Continuous, out: np.ndarray[Any, Any]) -> None:
        def fill(part: range) -> None:
            for member in part:
                self._streams[member].fill(distribution, out[member])

        threads = torch.get_num_threads() if out.size > _WORTH_THREADS else 1
        if threads == 1:
            fill(range(len(self)))
            return
        step = -(-len(self) // threads)
        with ThreadPoolExecutor(threads) as pool:
            starts = range(0, len(self), step)
            list(pool.map(fill, (range(i, min(i + step, len(self))) for i in starts)))
