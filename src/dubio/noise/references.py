"""The networks that a function refers to, however it holds them."""

from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any
from weakref import ReferenceType

import numpy
import torch
from torch import Tensor, nn

from dubio.noise.libraries import PYTHON, package
from dubio.noise.modes import all_modules

_NOTHING_INSIDE = (
    type(None), bool, int, float, complex, str, bytes, type, ModuleType, Tensor, numpy.ndarray,
    torch.dtype, torch.device,
)  # fmt: skip
_LIBRARIES = PYTHON | {"numpy"}
_NAMESPACES = (SimpleNamespace, Namespace)
_CONTAINERS = frozenset({list, tuple, set, deque, dict})
_OF_ALL_MODULES = frozenset(vars(nn.Module()))
_MANY = 10_000  # things to look at, and entries of one of them


def find_networks(thing: Any) -> list[nn.Module]:
    """Return all networks that can be reached from a thing, but for those inside of others.

    They are sought in variables around functions, defaults and globals that functions refer to,
    and in containers, methods, partial functions and objects, as deep as they go; in modules of
    users' classes, in containers among their attributes.
    """
    found: dict[nn.Module, None] = {}
    inside: set[nn.Module] = set()
    seen: dict[int, Any] = {}
    waiting = [thing]
    while waiting and len(seen) < _MANY:
        part = waiting.pop()
        if isinstance(part, nn.Module):
            if part not in inside:
                found[part] = None
                modules = all_modules([part])
                inside |= {*modules}
                waiting += _held_in_containers(modules)
        elif not isinstance(part, _NOTHING_INSIDE) and id(part) not in seen:
            seen[id(part)] = part
            waiting += reversed(list(islice(_inside(part), _MANY)))
    return list(found)


def _held_in_containers(modules: Iterable[nn.Module]) -> list[Any]:
    return [
        value
        for module in modules
        if package(type(module)) not in ("torch", "dubio")
        for name, value in vars(module).items()
        if type(value) in _CONTAINERS and name not in _OF_ALL_MODULES
    ]


def _inside(thing: Any) -> Iterable[Any]:
    """Return the objects that a thing refers to."""
    if isinstance(thing, partial):
        return (thing.func, thing.args, thing.keywords)
    if isinstance(thing, MethodType):
        return (thing.__self__, thing.__func__)
    if isinstance(thing, FunctionType):
        return _around(thing)
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return thing
    if isinstance(thing, Mapping):
        return thing.values()
    if isinstance(thing, ReferenceType):
        return (thing(),)
    if hasattr(thing, "__wrapped__"):
        return (thing.__wrapped__,)
    if _is_library(type(thing)) and not isinstance(thing, _NAMESPACES):
        return ()
    return _attributes(thing)


def _attributes(thing: Any) -> Iterator[Any]:
    """Yield what an object holds, and the function that runs when it is called."""
    yield from getattr(thing, "__dict__", {}).values()
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield getattr(thing, name, None)
    call = getattr(type(thing), "__call__", None)  # noqa: B004
    if isinstance(call, FunctionType):
        yield call


def _around(function: FunctionType) -> Iterator[Any]:
    """Yield variables around a function, its defaults, and globals that it refers to."""
    if _is_library(function) or (function.__module__ or "").startswith("torch."):
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield function.__defaults__
    yield function.__kwdefaults__
    yield vars(function)
    for code in _codes(function.__code__):
        for name in code.co_names:
            value = function.__globals__.get(name)
            yield value
            if isinstance(value, ModuleType) and value.__name__.split(".")[0] not in _LIBRARIES:
                yield from (vars(value).get(other) for other in code.co_names)


def _is_library(thing: Any) -> bool:
    return package(thing) in _LIBRARIES


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
