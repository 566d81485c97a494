"""The feed of the members: rows of data and noise, step by step."""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from dubio.population.given import Continuous, NoisePlace, NoiseRequests
from dubio.population.streams import Streams

_STEPS_AHEAD = 64
_NUMBERS_AT_A_TIME = 2**22  # of noise, drawn for several steps: what caches hold


class StepBatch(NamedTuple):
    """What one step of all members sees."""

    rows: Tensor  # (M, B)
    noise: dict[NoisePlace, Tensor]  # (M, *shape) each


def taken(data: Tensor, rows: Tensor) -> Tensor:  # (N, …), (M, B) -> (M, B, …)
    """Return the rows of each member; faster than indexing."""
    return data.index_select(0, rows.reshape(-1)).view(*rows.shape, *data.shape[1:])


@final
class NoiseFeed:
    """Gives members their noise, step by step; it is drawn some steps ahead.

    Each member has one line of numbers for each distribution, and steps take from its front. So
    how far ahead it was drawn changes nothing, nor do steps that need different amounts.

    Args:
        streams: Those of the members.
        like: A tensor with the dtype and device of the noise.
    """

    def __init__(self, streams: Streams, like: Tensor) -> None:
        self._streams = streams
        self._like = like
        self._lines: dict[Continuous, Tensor] = {}  # (M, n)
        self._at: dict[Continuous, int] = {}  # what was taken of n

    def next(self, requests: NoiseRequests) -> dict[NoisePlace, Tensor]:  # (M, *shape) each
        """Return the noise of the next step."""
        sizes = {name: size for name, size in requests.sizes().items() if size}
        needed = len(self._streams) * sum(sizes.values())
        return requests.split({name: self._front(name, n, needed) for name, n in sizes.items()})

    def _front(self, name: Continuous, size: int, needed: int) -> Tensor:  # (M, size)
        line, at = self._lines.get(name), self._at.get(name, 0)
        if line is None or line.shape[1] - at < size:
            steps = max(1, min(_NUMBERS_AT_A_TIME // needed, _STEPS_AHEAD))
            line = self._lengthened(name, steps * size)
            self._lines[name], at = line, 0
        self._at[name] = at + size
        return line[:, at : at + size]

    def _lengthened(self, name: Continuous, length: int) -> Tensor:  # (M, n), n ≥ length
        """Return the rest of a line, and more; never shorter, as its strides are recorded."""
        line = self._lines.get(name)
        if line is None:
            return self._streams.noise(1, {name: length}, self._like)[name][:, 0]
        left = line[:, self._at[name] :]
        missing = max(length, line.shape[1]) - left.shape[1]
        return torch.cat(
            [left, self._streams.noise(1, {name: missing}, self._like)[name][:, 0]], dim=1
        )

    def state_dict(self) -> dict[str, Any]:
        """Return numbers drawn ahead, and the state of the streams."""
        return {
            "at": dict(self._at),
            "lines": {
                name: line[:, self._at[name] :].clone() for name, line in self._lines.items()
            },
            "streams": self._streams.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with the same members."""
        self._at = dict(state["at"])
        self._lines = {
            name: torch.cat([rest.new_zeros(len(rest), self._at[name]), rest], dim=1)
            for name, rest in state["lines"].items()
        }
        self._streams.load_state_dict(state["streams"])

    def take(self, members: Tensor) -> None:
        """Go on with some of the members."""
        self._streams = self._streams.take(members.tolist())
        self._lines = {name: line[members] for name, line in self._lines.items()}


@final
class MemberFeed:
    """Gives members their rows and their noise, step by step; both are drawn some steps ahead.

    Args:
        streams: Those of the members.
        rows: The rows that each of them learns from.
        batch_size: How many of them make a batch.
        requests: The noise that a pass needs.
        like: A tensor with the dtype and device of the noise.
    """

    def __init__(
        self,
        streams: Streams,
        rows: Sequence[np.ndarray[Any, Any]],
        batch_size: int,
        requests: NoiseRequests,
        like: Tensor,
    ) -> None:
        self._streams = streams
        self._rows = list(rows)
        self._batch_size = batch_size
        self._requests = requests
        self._device = like.device
        self._noise = NoiseFeed(streams, like)
        self._orders = torch.empty(len(streams), 0, batch_size, dtype=torch.long)
        self._order_at = 0

    def next(self) -> StepBatch:
        """Return the batch of the next step."""
        if self._order_at == self._orders.shape[1]:
            taken = self._streams.rows(_STEPS_AHEAD * self._batch_size, self._rows)
            self._orders = taken.unflatten(1, (_STEPS_AHEAD, self._batch_size))
            self._orders = self._orders.to(self._device)
            self._order_at = 0
        rows = self._orders[:, self._order_at]
        self._order_at += 1
        return StepBatch(rows, self._noise.next(self._requests))

    def state_dict(self) -> dict[str, Any]:
        """Return numbers drawn ahead, and the state of the streams."""
        return {
            "orders": self._orders[:, self._order_at :].clone(),
            "noise": self._noise.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with the same members."""
        self._orders = state["orders"]
        self._order_at = 0
        self._noise.load_state_dict(state["noise"])

    def take(self, members: Tensor) -> None:
        """Go on with some of the members."""
        chosen = members.tolist()
        self._streams = self._streams.take(chosen)
        self._rows = [self._rows[m] for m in chosen]
        self._orders = self._orders[members]
        self._noise.take(members)
