"""The objects behind data: what may hold random numbers, or a place in an order of its own."""

import random
from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

import numpy
import torch
from torch import Tensor

from dubio.noise.libraries import package

Generator: TypeAlias = (
    torch.Generator | numpy.random.Generator | numpy.random.RandomState | random.Random
)
_ALL = 100_000  # objects that are looked at
_MANY = 1000  # things of a container that are looked at: a data set may be a list of all its rows
_CLOSED = (Tensor, numpy.ndarray, ModuleType, type, str, bytes, int, float, bool, CodeType)
_LIBRARIES = ("builtins", "collections", "functools", "numpy", "random", "torch", "typing")


def holders(*roots: object) -> list[object]:
    """All objects that are reached from some, in an order that is the same in every process.

    These are attributes, the content of lists, tuples and dicts, what functions and methods refer
    to, and what methods of classes that are no library's take from around them.
    """
    seen: dict[int, object] = {}
    waiting = list(reversed(roots))
    while waiting and len(seen) < _ALL:
        thing = waiting.pop()
        if id(thing) in seen or thing is None or isinstance(thing, _CLOSED):
            continue
        seen[id(thing)] = thing
        if not isinstance(thing, Generator):
            waiting.extend(reversed(list(_inside(thing))))
    return list(seen.values())


def generators(things: list[object]) -> list[Generator]:
    """The sources of random numbers among some objects."""
    return [
        t for t in things if isinstance(t, Generator) and not isinstance(t, random.SystemRandom)
    ]


def _inside(thing: object) -> Iterator[object]:
    if isinstance(thing, list | tuple):
        yield from islice(thing, _MANY)
        return
    if isinstance(thing, dict):
        yield from islice(thing.values(), _MANY)
        return
    if isinstance(thing, partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif isinstance(thing, MethodType):
        yield from (thing.__self__, thing.__func__)
    elif isinstance(thing, FunctionType):
        yield from _around(thing)
    yield from islice(getattr(thing, "__dict__", {}).values(), _MANY)
    for kind in type(thing).__mro__:
        if package(kind) in _LIBRARIES:
            continue
        for name in getattr(kind, "__slots__", ()):
            yield getattr(thing, name, None)
        for value in vars(kind).values():
            if isinstance(value, FunctionType):
                yield from _around(value)
            elif isinstance(value, Generator):
                yield value


def _around(function: FunctionType) -> Iterator[object]:
    """What a function has from around it: of globals the generators alone."""
    yield from function.__defaults__ or ()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in function.__code__.co_names:
        value: Any = function.__globals__.get(name)
        if isinstance(value, Generator):
            yield value
