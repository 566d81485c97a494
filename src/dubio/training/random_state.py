"""Every source of random numbers that training may draw from, to be put back where it was."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy
import torch
from torch import Tensor


@final
class RandomState:
    """The state of torch's, numpy's and Python's global generators, and of others in use.

    Args:
        owners: Objects whose attributes may be generators of torch: modules, loaders, samplers.
    """

    def __init__(self, owners: Iterable[object]) -> None:
        found = [
            value
            for owner in owners
            for value in (owner, *getattr(owner, "__dict__", {}).values())
            if isinstance(value, torch.Generator)
        ]
        devices = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
        self._generators = list(dict.fromkeys([torch.default_generator, *devices, *found]))

    def __len__(self) -> int:
        """How many generators of torch there are."""
        return len(self._generators)

    def get_torch(self) -> list[Tensor]:
        """Where torch's generators stand; takes a microsecond each."""
        return [generator.get_state() for generator in self._generators]

    def set_torch(self, states: list[Tensor]) -> None:
        """Put torch's generators there."""
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def get(self) -> dict[str, Any]:
        """Where all generators stand, in types that ``torch.load(weights_only=True)`` takes."""
        numbers = numpy.random.get_state(legacy=False)
        return {"torch": self.get_torch(), "numpy": _plain(numbers), "python": random.getstate()}

    def set(self, state: dict[str, Any]) -> None:
        """Put all generators there."""
        self.set_torch(state["torch"])
        numpy.random.set_state(state["numpy"])
        random.setstate(state["python"])

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Leave all generators as they were, whatever the block draws."""
        state = self.get()
        try:
            yield
        finally:
            self.set(state)


def _plain(state: Any) -> Any:
    """Arrays as lists, in nested dicts."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, numpy.ndarray) else state
