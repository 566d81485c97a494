"""Detect networks whose code may start threads."""

from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

from dubio.noise.libraries import PYTHON, is_known, package

_LIBRARIES = PYTHON | {"torch", "dubio", "numpy"}
# What code mentions that has work done in other threads.
_THREADS = frozenset(
    {"Thread", "ThreadPoolExecutor", "ThreadPool", "start_new_thread", "submit", "map", "imap"}
    | {"apply_async", "map_async", "starmap", "run_in_executor", "to_thread", "parallel_apply"}
    | {"start", "put", "put_nowait", "Parallel", "delayed"}
)
_known: dict[type, bool] = {}


def may_start_threads(modules: Iterable[nn.Module]) -> bool:
    """Return whether code of modules, or a function that it names, mentions threads."""
    return any(not is_known(module) and _mentions_threads(module) for module in modules)


def _mentions_threads(module: nn.Module) -> bool:
    own = [part for part in vars(module).values() if isinstance(part, FunctionType | MethodType)]
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return _of_class(type(module)) or any(map(_of_function, (*own, *hooks)))


def _of_class(kind: type) -> bool:
    if kind not in _known:
        _known[kind] = any(
            _of_function(attribute)
            for ancestor in kind.__mro__
            if package(ancestor) not in _LIBRARIES
            for attribute in vars(ancestor).values()
        )
    return _known[kind]


def _of_function(function: Any) -> bool:
    waiting, seen = [function], set[int]()
    while waiting:
        this = waiting.pop()
        this = getattr(this, "__wrapped__", getattr(this, "__func__", this))
        if not isinstance(this, FunctionType) or package(this) in _LIBRARIES or id(this) in seen:
            continue
        seen.add(id(this))
        for code in _codes(this.__code__):
            if not _THREADS.isdisjoint(code.co_names):
                return True
            waiting += [this.__globals__.get(name) for name in code.co_names]
    return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
