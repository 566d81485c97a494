"""What members are fed with: rows of the data and noise, step by step."""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from dubio.population.given import Continuous, NoisePlace, NoiseRequests
from dubio.population.streams import Streams

_STEPS_OF_ORDER = 64
_NUMBERS_AT_A_TIME = 2**24  # of noise, drawn for several steps


class StepBatch(NamedTuple):
    """What one step of all members sees."""

    rows: Tensor  # (M, B)
    noise: dict[NoisePlace, Tensor]  # (M, *shape) each


def taken(data: Tensor, rows: Tensor) -> Tensor:  # (N, …), (M, B) -> (M, B, …)
    """The rows of each member; faster than indexing."""
    return data.index_select(0, rows.reshape(-1)).view(*rows.shape, *data.shape[1:])


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
        self._like = like
        self._orders = torch.empty(len(streams), 0, batch_size, dtype=torch.long)
        self._noise: dict[Continuous, Tensor] = {}  # (M, steps, n)
        self._order_at = self._noise_at = 0
        self._noise_steps = 0

    def next(self) -> StepBatch:
        """The batch of the next step."""
        if self._order_at == self._orders.shape[1]:
            taken = self._streams.rows(_STEPS_OF_ORDER * self._batch_size, self._rows)
            self._orders = taken.unflatten(1, (_STEPS_OF_ORDER, self._batch_size))
            self._orders = self._orders.to(self._like.device)
            self._order_at = 0
        if self._noise_at == self._noise_steps:
            sizes = self._requests.sizes()
            needed = len(self._streams) * max(1, sum(sizes.values()))
            self._noise_steps = max(1, min(_NUMBERS_AT_A_TIME // needed, _STEPS_OF_ORDER))
            self._noise = self._streams.noise(self._noise_steps, sizes, self._like)
            self._noise_at = 0
        rows = self._orders[:, self._order_at]
        noise = {name: numbers[:, self._noise_at] for name, numbers in self._noise.items()}
        self._order_at += 1
        self._noise_at += 1
        return StepBatch(rows, self._requests.split(noise))

    def state_dict(self) -> dict[str, Any]:
        """What was drawn for the steps to come, and where the streams are."""
        return {
            "orders": self._orders[:, self._order_at :].clone(),
            "noise": {name: n[:, self._noise_at :].clone() for name, n in self._noise.items()},
            "noise_steps": self._noise_steps - self._noise_at,
            "streams": self._streams.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with the same members."""
        self._orders, self._noise = state["orders"], state["noise"]
        self._noise_steps = state["noise_steps"]
        self._order_at = self._noise_at = 0
        self._streams.load_state_dict(state["streams"])

    def take(self, members: Tensor) -> None:
        """Go on with some of the members."""
        chosen = members.tolist()
        self._streams = self._streams.take(chosen)
        self._rows = [self._rows[m] for m in chosen]
        self._orders = self._orders[members]
        self._noise = {name: numbers[members] for name, numbers in self._noise.items()}
