"""Find objects behind data and objectives that hold random state or a position."""

import random
import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, TypeAlias

import numpy
import torch
from torch import Tensor

from dubio.noise.libraries import PYTHON, package

Generator: TypeAlias = (
    torch.Generator | numpy.random.Generator | numpy.random.RandomState | random.Random
)
_LIBRARIES = PYTHON | {"dubio", "numpy", "torch"}
_ALL = 100_000  # objects that are looked at
_MANY = 1000  # things of a container that are looked at: a data set may be a list of all its rows
_CLOSED = (Tensor, ModuleType, type, str, bytes, int, float, bool, CodeType)
_BUILT_IN = ("builtin_function_or_method", "cython_function_or_method")  # as generator.normal is
_INSTALLED = ("site-packages", "dist-packages")


def holders(*roots: object, follow_calls: bool = True) -> list[object]:
    """Return all objects that are reached from some, in an order that is the same in every process.

    These are attributes, the content of containers, and what functions and methods take from around
    them. Of globals these are generators, and what the user's own functions call or name, unless
    calls are not followed. Only sets have no order; see `has_no_order`.
    """
    seen: dict[int, object] = {}
    waiting = list(reversed(roots))
    while waiting and len(seen) < _ALL:
        thing = waiting.pop()
        if id(thing) in seen or thing is None or _is_closed(thing):
            continue
        seen[id(thing)] = thing
        if not isinstance(thing, Generator):
            waiting.extend(reversed(list(_inside(thing, follow_calls))))
    return list(seen.values())


def generators(things: list[object]) -> list[Generator]:
    """Return the sources of random numbers among some objects."""
    return [
        t for t in things if isinstance(t, Generator) and not isinstance(t, random.SystemRandom)
    ]


def has_no_order(things: list[object]) -> bool:
    """Return whether a set holds several generators, whose order differs by process."""
    sets = [t for t in things if isinstance(t, set | frozenset) and len(t) > 1]
    return any(len(generators(holders(*members))) > 1 for members in sets)


def _is_closed(thing: object) -> bool:
    if isinstance(thing, numpy.ndarray):
        return not thing.dtype.hasobject
    return isinstance(thing, _CLOSED)


def _inside(thing: object, follow_calls: bool) -> Iterator[object]:
    members = _members(thing)
    yield from islice(members, _MANY)
    yield from (member for member in members if isinstance(member, Generator))
    if isinstance(thing, partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif isinstance(thing, MethodType):
        yield from (thing.__self__, thing.__func__)
    elif isinstance(thing, FunctionType):
        yield from _around(thing, follow_calls)
    elif type(thing).__name__ in _BUILT_IN:
        yield getattr(thing, "__self__", None)
    yield from islice(getattr(thing, "__dict__", {}).values(), _MANY)
    for kind in type(thing).__mro__:
        for name in _slots(kind):
            yield getattr(thing, name, None)
        if package(kind) not in _LIBRARIES:
            yield from map(_unwrapped, vars(kind).values())


def _members(thing: object) -> Iterator[object]:
    """Return the members of a container."""
    if isinstance(thing, list | tuple | deque | set | frozenset):
        return iter(thing)
    if isinstance(thing, dict | MappingProxyType):
        return iter(thing.values())
    return iter(thing.flat if isinstance(thing, numpy.ndarray) else ())


def _slots(kind: type) -> tuple[str, ...]:
    slots = getattr(kind, "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _unwrapped(value: Any) -> object:
    """Return the function behind a property, static method or class method."""
    if isinstance(value, property):
        return value.fget
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


def _around(function: FunctionType, follow_calls: bool) -> Iterator[object]:
    """Yield the objects that a function refers to.

    Of its globals these are generators; if it is the user's own and calls are followed, also
    functions and other objects, and what it takes from modules and classes of the user's.
    """
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    own = follow_calls and not is_library(function)
    names = _names(function.__code__)
    for name in names:
        value: Any = function.__globals__.get(name)
        if isinstance(value, Generator):
            yield value
        elif own and isinstance(value, ModuleType):
            if value.__name__.split(".", 1)[0] not in _LIBRARIES:
                yield from (vars(value).get(other) for other in names)
        elif own and isinstance(value, type):
            if package(value) not in _LIBRARIES:
                yield from map(_unwrapped, vars(value).values())
        elif own:
            yield value


def _names(code: CodeType) -> dict[str, None]:
    """Return the names of globals and attributes in a function and in those that it defines."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def is_library(thing: type | FunctionType) -> bool:
    """Return whether a class or function belongs to a library."""
    if isinstance(thing, FunctionType):
        where = thing.__code__.co_filename
    else:
        where = getattr(sys.modules.get(thing.__module__), "__file__", None) or ""
    return package(thing) in _LIBRARIES or any(part in where for part in _INSTALLED)
