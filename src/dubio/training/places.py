"""Where samplers stand: the numbers that they keep beside their random numbers.

A sampler may count epochs, or shuffle one list further and further. Such numbers are saved and put
back, as random states are.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any, final

import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from dubio.training.errors import CheckpointError
from dubio.training.holders import generators, holders

_NUMBERS = (bool, int, float, str, type(None))
_first: dict[int, dict[str, Any]] = {}


@final
class Places:
    """What has changed in the objects that give the order of data, and in counters of the data.

    Args:
        data: A loader, or any other iterable of batches, before it is gone through.
    """

    def __init__(self, data: object) -> None:
        rows = holders(data.dataset) if isinstance(data, DataLoader) else []
        known = {id(thing) for thing in rows}
        order = [data.sampler, data.batch_sampler] if isinstance(data, DataLoader) else [data]
        samplers = [thing for thing in holders(*order) if id(thing) not in known]
        self._samplers = _named(samplers, "sampler")
        self._rows = _named(rows, "data set")
        self._at_first = {
            name: _remembered(thing, attributes) for name, thing, attributes in self._attributes()
        }

    def _attributes(self) -> Iterator[tuple[str, object, dict[str, Any]]]:
        """Plain attributes of samplers; of data sets, which may be large, only numbers."""
        for things, is_saved in ((self._samplers, _is_plain), (self._rows, _is_number)):
            for name, thing in things.items():
                yield name, thing, {k: v for k, v in vars(thing).items() if is_saved(v)}

    def get(self) -> dict[str, dict[str, Any]]:
        """What is not as at first, in types that ``torch.load(weights_only=True)`` takes."""
        changes = {}
        for name, _, now in self._attributes():
            before = self._at_first[name]
            changed = {k: v for k, v in now.items() if k not in before or not _same(v, before[k])}
            if changed:
                changes[name] = _copied(changed)
        return changes

    def set(self, changes: dict[str, dict[str, Any]]) -> None:
        """Let everything be as at first but for these changes."""
        things = self._samplers | self._rows
        unknown = changes.keys() - things.keys()
        if unknown:
            raise CheckpointError(
                f"checkpoint: expected data with the same parts as before, got none that is "
                f"{', '.join(sorted(unknown))}; pass the same data, or another path."
            )
        for name, thing in things.items():
            for attribute, value in (self._at_first[name] | changes.get(name, {})).items():
                _put(vars(thing), attribute, value)


def _named(things: list[object], part: str) -> dict[str, object]:
    """Those that have attributes of their own, each with its class and a number."""
    closed = {id(generator) for generator in generators(things)}
    counts: Counter[str] = Counter()
    named: dict[str, object] = {}
    for thing in things:
        has_attributes = isinstance(getattr(thing, "__dict__", None), dict)
        if has_attributes and id(thing) not in closed and not callable(thing):
            kind = type(thing).__qualname__
            counts[kind] += 1
            named[f"{part} {kind} {counts[kind]}"] = thing
    return named


def _remembered(thing: object, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes at the first run of this process that sees an object.

    A run that was interrupted, as in a notebook, has moved it from there.
    """
    key = id(thing)
    if key not in _first:
        _first[key] = _copied(attributes)
        try:
            weakref.finalize(thing, _first.pop, key, None)
        except TypeError:  # of a class with slots
            return _first.pop(key)
    return _first[key]


def _is_number(value: object) -> bool:
    return type(value) in _NUMBERS


def _is_plain(value: object) -> bool:
    if isinstance(value, numpy.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(map(_is_plain, value))
    return _is_number(value) or type(value) is Tensor


def _copied(value: Any) -> Any:
    """A value that does not change any more, arrays as tensors."""
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    if isinstance(value, numpy.ndarray):
        return torch.from_numpy(value.copy())
    return value.detach().clone() if isinstance(value, Tensor) else value


def _same(now: Any, before: Any) -> bool:
    if isinstance(now, list | tuple):
        return (
            type(now) is type(before) and len(now) == len(before) and all(map(_same, now, before))
        )
    if isinstance(now, numpy.ndarray):
        now = torch.from_numpy(now)
    if isinstance(now, Tensor):
        return isinstance(before, Tensor) and torch.equal(now, before)
    return type(now) is type(before) and bool(now == before)


def _put(attributes: dict[str, Any], name: str, value: Any) -> None:
    """Give an attribute its value back, in place if others may know the object."""
    now = attributes.get(name)
    if name in attributes and _is_plain(now) and _same(now, value):
        return
    if isinstance(now, list) and isinstance(value, list):
        now[:] = map(_copied, value)
    elif isinstance(now, numpy.ndarray):
        attributes[name] = _copied(value).numpy()
    else:
        attributes[name] = _copied(value)
