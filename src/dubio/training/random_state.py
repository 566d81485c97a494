"""The state of every generator that training may draw from."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy
import torch
from torch import Tensor

from dubio.noise.generators import global_generators
from dubio.training.holders import Generator, generators, has_no_order, holders
from dubio.training.values import is_same


@final
class RandomState:
    """The state of torch's, numpy's and Python's global generators, and of others in use.

    Args:
        owners: Objects that may hold generators, however deep: modules, loaders.
        watcher: An object that looks on; generators that it alone holds are its own.

    Attributes:
        has_no_order: Whether some are in a set, where another process cannot tell them apart.
    """

    def __init__(self, owners: Iterable[object], watcher: object = None) -> None:
        in_use = holders(*owners)
        watching = holders(watcher)
        self.has_no_order = has_no_order(in_use) or has_no_order(watching)
        found = dict.fromkeys(generators(in_use))
        everywhere = found | dict.fromkeys(generators(watching))
        of_torch = [g for g in everywhere if isinstance(g, torch.Generator)]
        self._generators = list(dict.fromkeys([*global_generators(), *of_torch]))
        self._others = [g for g in everywhere if not isinstance(g, torch.Generator)]
        self._of_watcher = [g for g in everywhere if g not in found]

    def __len__(self) -> int:
        """Return how many generators there are besides numpy's and Python's global ones."""
        return len(self._generators) + len(self._others)

    def get_torch(self) -> list[Tensor]:
        """Return the state of torch's generators, at a microsecond each."""
        return [generator.get_state() for generator in self._generators]

    def set_torch(self, states: list[Tensor]) -> None:
        """Put torch's generators there."""
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def get(self) -> dict[str, Any]:
        """Return the states of all generators, for ``torch.load(weights_only=True)``."""
        numbers = numpy.random.get_state(legacy=False)
        return {
            "torch": self.get_torch(),
            "numpy": _plain(numbers),
            "python": random.getstate(),
            "others": [_plain(_get(generator)) for generator in self._others],
        }

    def set(self, state: dict[str, Any]) -> None:
        """Put all generators there."""
        self.set_torch(state["torch"])
        numpy.random.set_state(state["numpy"])
        random.setstate(state["python"])
        for generator, its_state in zip(self._others, state["others"], strict=True):
            _set(generator, its_state)

    def has_moved_as(self, before: dict[str, Any], then: dict[str, Any]) -> bool:
        """Return whether every generator that has moved since a state stands as in another one."""
        states = zip(_each(before), _each(self.get()), _each(then), strict=True)
        return all(is_same(one, now) or is_same(now, other) for one, now, other in states)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Leave generators as they were, whatever the block draws, but for the watcher's own."""
        state = self.get()
        try:
            yield
        finally:
            its_own = [_get(generator) for generator in self._of_watcher]
            self.set(state)
            for generator, its_state in zip(self._of_watcher, its_own, strict=True):
                _set(generator, its_state)


def _each(state: dict[str, Any]) -> list[Any]:
    """Return the states of single generators."""
    return [*state["torch"], state["numpy"], state["python"], *state["others"]]


def _get(generator: Generator) -> Any:
    match generator:
        case torch.Generator():
            return generator.get_state()
        case numpy.random.Generator():
            return generator.bit_generator.state
        case numpy.random.RandomState():
            return generator.get_state(legacy=False)
        case _:
            return generator.getstate()


def _set(generator: Generator, state: Any) -> None:
    match generator:
        case torch.Generator():
            generator.set_state(state)
        case numpy.random.Generator():
            generator.bit_generator.state = state
        case numpy.random.RandomState():
            generator.set_state(state)
        case _:
            generator.setstate(state)


def _plain(state: Any) -> Any:
    """Arrays as lists, in nested dicts."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, numpy.ndarray) else state
