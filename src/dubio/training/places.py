"""Positions of samplers: the numbers that they keep besides random state.

A sampler may count epochs, or shuffle one list further and further. Such numbers are saved and put
back, as random states are.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import final

from torch.utils.data import DataLoader

from dubio.training.errors import CheckpointError
from dubio.training.holders import generators, holders
from dubio.training.values import Written, is_number, is_plain, is_same, put, written

Notes = dict[str, Written]  # by attribute
_first: dict[int, Notes] = {}


@final
class Places:
    """Changes of the objects that order the data, and of counters in the data.

    Args:
        data: A loader, or any other iterable of batches, before it is gone through.
    """

    def __init__(self, data: object) -> None:
        rows = _near(data.dataset) if isinstance(data, DataLoader) else []
        known = {id(thing) for thing in rows}
        order = [data.sampler, data.batch_sampler] if isinstance(data, DataLoader) else [data]
        samplers = [thing for thing in _near(*order) if id(thing) not in known]
        self._samplers = _named(samplers, "sampler")
        self._rows = _named(rows, "data set")
        self._at_first = {
            name: _remembered(thing, attributes) for name, thing, attributes in self._attributes()
        }

    def _attributes(self) -> Iterator[tuple[str, object, Notes]]:
        """Plain attributes of samplers; of data sets, which may be large, only numbers."""
        for things, is_saved in ((self._samplers, is_plain), (self._rows, is_number)):
            for name, thing in things.items():
                yield name, thing, {k: written(v) for k, v in vars(thing).items() if is_saved(v)}

    def get(self) -> dict[str, Notes]:
        """Return the changes, in types that ``torch.load(weights_only=True)`` accepts."""
        changes = {}
        for name, _, now in self._attributes():
            before = self._at_first[name]
            changed = {k: v for k, v in now.items() if not is_same(v, before.get(k))}
            if changed:
                changes[name] = changed
        return changes

    def set(self, changes: dict[str, Notes]) -> None:
        """Let everything be as at first but for these changes."""
        things = self._samplers | self._rows
        unknown = changes.keys() - things.keys()
        if unknown:
            raise CheckpointError(
                f"checkpoint: expected data with the same parts as before, got none that is "
                f"{', '.join(sorted(unknown))}; pass the same data, or another path"
            )
        for name, thing in things.items():
            for attribute, value in (self._at_first[name] | changes.get(name, {})).items():
                put(vars(thing), attribute, value)


def _near(*roots: object) -> list[object]:
    return holders(*roots, follow_calls=False)


def _named(things: list[object], part: str) -> dict[str, object]:
    """Return those that have attributes of their own, each with its class and a number."""
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


def _remembered(thing: object, attributes: Notes) -> Notes:
    """Return the attributes at the first run of this process that sees an object.

    A run that was interrupted, as in a notebook, has moved it from there.
    """
    key = id(thing)
    if key not in _first:
        _first[key] = attributes
        try:
            weakref.finalize(thing, _first.pop, key, None)
        except TypeError:  # of a class with slots
            return _first.pop(key)
    return _first[key]
