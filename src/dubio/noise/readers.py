"""Who asks for flags of train mode, starts threads or writes weights, by a look at code."""

import dis
from collections.abc import Callable, Iterable, Iterator
from inspect import getattr_static
from itertools import pairwise
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple, Self

from torch import nn

from dubio.noise.libraries import PYTHON, package
from dubio.noise.register import is_registered
from dubio.noise.stochastic import Noisy

_LIBRARIES = PYTHON | {"torch", "dubio", "numpy"}
# What code calls that has work done in other threads.
_THREADS = frozenset(
    {"Thread", "ThreadPoolExecutor", "ThreadPool", "start_new_thread", "submit", "map", "imap"}
    | {"apply_async", "map_async", "starmap", "run_in_executor", "to_thread", "parallel_apply"}
    | {"start", "put", "put_nowait", "Parallel", "delayed"}
)
# What code mentions that writes over parameters while the network runs.
_WRITES = frozenset({"data", "no_grad", "inference_mode", "set_grad_enabled", "Parameter", "set_"})
_MAKES = frozenset({"__init__", "reset_parameters", "init_weights", "_init_weights"})


class _Code(NamedTuple):
    """What code does.

    Attributes:
        reads: Whether it reads a flag of train mode.
        reads_others: Whether that may be the flag of another module than the one it belongs to.
        threads: Whether it may start threads, or have work done by some.
        writes: Whether it may write over parameters.
    """

    reads: bool = False
    reads_others: bool = False
    threads: bool = False
    writes: bool = False

    def __or__(self, other: Self) -> Self:
        return type(self)(*(a or b for a, b in zip(self, other, strict=True)))


_of_classes: dict[type, _Code] = {}


def reads_flags(
    model: Callable[..., Any], roots: Iterable[nn.Module], modules: Iterable[nn.Module]
) -> list[nn.Module]:
    """The modules whose flag is read by code that is not torch's, or may be."""
    found: dict[nn.Module, None] = {}
    for module in modules:
        code = _of_module(module)
        if code.reads and not is_registered(module) and not isinstance(module, Noisy):
            found[module] = None
            if code.reads_others:
                found |= dict.fromkeys(module.children())
    if not isinstance(model, nn.Module) and _of_functions(_functions(model)).reads:
        found |= dict.fromkeys(roots)
    return list(found)


def may_start_threads(model: Callable[..., Any], modules: Iterable[nn.Module]) -> bool:
    """Whether a network may compute in other threads than the one that calls it."""
    return any(code.threads for code in _of_network(model, modules))


def may_write_weights(model: Callable[..., Any], modules: Iterable[nn.Module]) -> bool:
    """Whether a network may write over its parameters while it runs."""
    return any(code.writes for code in _of_network(model, modules))


def _of_network(model: Callable[..., Any], modules: Iterable[nn.Module]) -> Iterator[_Code]:
    if not isinstance(model, nn.Module):
        yield _of_functions(_functions(model))
    yield from map(_of_module, modules)


def _of_module(module: nn.Module) -> _Code:
    kind = type(module)
    code = _of_class(kind)
    if not _is_library(kind) or "forward" in module.__dict__:
        for part in vars(module).values():
            if isinstance(part, FunctionType | MethodType):
                code = code | _of_functions(_functions(part))
            elif not isinstance(part, nn.Module) and not _is_library(type(part)):
                code = code | _of_class(type(part))
    if module._forward_hooks or module._forward_pre_hooks:
        hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
        code = code | _of_functions(function for hook in hooks for function in _functions(hook))
    return code


def _of_class(kind: type) -> _Code:
    """What the methods of a class do, but for those of torch, dubio and Python itself."""
    if kind not in _of_classes:
        _of_classes[kind] = _of_functions(
            function
            for ancestor in kind.__mro__
            if not _is_library(ancestor)
            for attribute in vars(ancestor).values()
            for function in _functions(attribute)
        )
    return _of_classes[kind]


def _is_library(thing: Any) -> bool:
    """Whether a class or function is torch's, dubio's, numpy's or Python's."""
    return package(thing) in _LIBRARIES


def _functions(thing: Any) -> Iterator[FunctionType]:
    """The functions behind a method, a property, a decorator, or an object that can be called."""
    if isinstance(thing, FunctionType):
        yield thing
        for cell in thing.__closure__ or ():
            try:
                inner = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if isinstance(inner, FunctionType | MethodType) and inner is not thing:
                yield from _functions(inner)
    elif isinstance(thing, MethodType | staticmethod | classmethod):
        yield from _functions(thing.__func__)
    elif isinstance(thing, property):
        yield from _functions(thing.fget)
    elif hasattr(thing, "func"):  # partial, cached_property
        yield from _functions(thing.func)
    elif hasattr(thing, "__wrapped__"):
        yield from _functions(thing.__wrapped__)
    elif callable(thing) and not isinstance(thing, type | nn.Module):
        call = getattr_static(type(thing), "__call__", None)
        yield from _functions(call) if isinstance(call, FunctionType) else ()


def _of_functions(functions: Iterable[FunctionType]) -> _Code:
    """What functions do, and those that they refer to by name."""
    found = _Code()
    waiting, seen = [(function, True) for function in functions], set()
    while waiting:
        function, outermost = waiting.pop()
        if id(function) in seen or _is_library(function):
            continue
        seen.add(id(function))
        for code in _codes(function.__code__):
            found |= _of_code(code, outermost)
            waiting += [
                (value, False)
                for name in code.co_names
                if isinstance(value := function.__globals__.get(name), FunctionType)
            ]
    return found


def _of_code(code: CodeType, outermost: bool) -> _Code:
    strings = {constant for constant in code.co_consts if isinstance(constant, str)}
    reads = "training" in code.co_names or "training" in strings
    return _Code(
        reads,
        reads and (not outermost or _reads_others(code)),
        not _THREADS.isdisjoint(code.co_names) and _starts_threads(code),
        code.co_name not in _MAKES and not _WRITES.isdisjoint(code.co_names),
    )


def _reads_others(code: CodeType) -> bool:
    """Whether code reads flags of others than ``self``."""
    steps = (step for step in dis.get_instructions(code) if step.opname != "CACHE")
    return any(
        step.argval == "training" and (before.argval != "self" or step.opname == "LOAD_CONST")
        for before, step in pairwise(steps)
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_CONST")
    )


def _starts_threads(code: CodeType) -> bool:
    """Whether a name stands for what starts threads, and not for the built-in function map."""
    return any(
        step.argval in _THREADS and not (step.argval == "map" and step.opname == "LOAD_GLOBAL")
        for step in dis.get_instructions(code)
        if step.opname.startswith("LOAD_")
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
