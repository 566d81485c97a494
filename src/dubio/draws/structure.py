"""What a network is made of, looked at so that a change is noticed before the next prediction.

Looked at are, from the network (or the function that calls networks) on:

- every module: its type, its attributes, its parameters, buffers, submodules and hooks;
- tensors: which they are, their shape, strides, type, device, and whether they have gradients.
  Their numbers may change at will;
- lists, tuples, sets and dicts with their order, and objects of classes written in Python, as deep
  as they go;
- functions and methods, written in Python and not part of a library: the variables around them,
  their defaults and attributes, and the globals that they refer to or would if there were some,
  through functions and modules as well;
- classes and their classes: what they inherit from, which attributes they have, their methods;
- hooks that torch calls for all modules.

Where something else is found, such as an array of numpy or an open file, there is a doubt; also if
there is too much to look at. Objects of libraries among globals, such as loggers, are passed over.
"""

from argparse import Namespace
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from operator import is_
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, final
from weakref import ReferenceType

import numpy
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from dubio.noise.libraries import PYTHON, package

_Field = type(vars(namedtuple("_Named", "field"))["field"])  # of a named tuple
_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, Enum, range, slice,
    torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format,
    MethodDescriptorType, WrapperDescriptorType,
    property, staticmethod, classmethod, _Field,
)  # fmt: skip
_LIBRARIES = PYTHON | {"torch", "dubio", "numpy"}
_MANY = 5000  # names
_GLOBAL_HOOKS = (torch_module._global_forward_pre_hooks, torch_module._global_forward_hooks)
# Methods that make objects or describe them; they may be replaced, but need not be looked into.
_NOT_RUN = frozenset(
    {"__init__", "__new__", "__init_subclass__", "__del__", "__repr__", "__str__", "__reduce__"}
)
_NAMESPACES = (SimpleNamespace, Namespace)
# Globals of these types are looked at, although libraries have made the types.
_LOOKED_AT = (
    Tensor, FunctionType, BuiltinFunctionType, type, dict, list, tuple, set, nn.Module,
    numpy.ndarray, partial, *_NAMESPACES,
)  # fmt: skip
# Objects of these parts of the standard library have a state that cannot be looked at.
_WITH_STATE = frozenset(
    {"collections", "itertools", "contextvars", "_contextvars", "threading", "_thread", "queue"}
)


@final
class Structure:
    """A network as it is now.

    Attributes:
        doubt: What cannot be looked at, if there is such a thing.
        tensors: All tensors that were found.
    """

    def __init__(self, model: Callable[..., Any]) -> None:
        self.doubt: str | None = None
        self.tensors: list[Tensor] = []
        self._kept: list[Any] = []  # so that ids stay what they are
        self._seen: set[int] = set()
        self._live: list[Any] = []
        self._ordered: list[Any] = []  # those whose entries have an order that `==` does not see
        self._names: list[tuple[Mapping[str, Any], str]] = []
        self._absent: list[tuple[Mapping[str, Any], frozenset[str]]] = []  # names without a value
        self._classes: list[type] = []
        self._objects: list[Any] = []
        self._references: list[ReferenceType[Any]] = []
        self._cells: list[Any] = []
        self._places: list[tuple[Any, Any]] = []  # containers and where they hold a tensor
        self._typed: list[Any] = []  # containers in which 1, 1.0 and True are not the same
        self._modules: set[int] = set()  # ids of the attributes of modules
        self._functions: list[FunctionType] = []
        try:
            self._look(model)
            for hooks in _GLOBAL_HOOKS:
                self._look(hooks)
        except RecursionError:
            self.doubt = "a structure that is too deep"
        if len(self._names) > _MANY:
            self.doubt = "too much code"
        self._frozen = [_copy(container) for container in self._live]
        self._order = list(map(list, self._ordered))
        self._members = [frozenset(vars(kind)) - {"training"} for kind in self._classes]
        self._types = self._find_types()
        self._found = self._find()
        self._forms = list(map(_form, self.tensors))
        self._seen.clear()

    def same(self) -> bool:
        """Return whether all is as it was; flags of train and eval mode do not count."""
        if self._forms != list(map(_form, self.tensors)):
            return False
        try:
            if self._live != self._frozen and not self._only_flags_differ():
                return False
        except (RuntimeError, TypeError, ValueError):  # tensors or arrays, which are not equal
            return False
        return (
            all(map(is_, self._find(), self._found))
            and self._find_types() == self._types
            and list(map(list, self._ordered)) == self._order
            and all(unused.isdisjoint(names) for names, unused in self._absent)
            and all(map(_has_members, self._classes, self._members))
        )

    def _only_flags_differ(self) -> bool:
        for i, (live, frozen) in enumerate(zip(self._live, self._frozen, strict=True)):
            if live == frozen:
                continue
            flagged = id(live) in self._modules
            if not flagged or {**live, "training": None} != {**frozen, "training": None}:
                return False
            self._frozen[i] = dict(live)
        return True

    def _find(self) -> list[Any]:
        """Find what names and variables stand for, objects in containers, and code."""
        return [
            *(names.get(name) for names, name in self._names),
            *(_content(cell) for cell in self._cells),
            *(container[key] for container, key in self._places),
            *(function.__code__ for function in self._functions),
            *(function.__defaults__ for function in self._functions),
            *(function.__kwdefaults__ for function in self._functions),
            *(kind.__mro__ for kind in self._classes),
            *(type(thing) for thing in self._objects),
            *(reference() for reference in self._references),
        ]

    def _find_types(self) -> list[list[type]]:
        return [list(map(type, _values(container))) for container in self._typed]

    def _look(self, thing: Any) -> None:
        if self.doubt is not None or isinstance(thing, _PLAIN) or id(thing) in self._seen:
            return
        if isinstance(thing, type):
            self._look_at_class(thing)
            return
        self._seen.add(id(thing))
        self._kept.append(thing)
        if isinstance(thing, Tensor):
            self.tensors.append(thing)
            self._look_into(vars(thing))
        elif isinstance(thing, FunctionType):
            self._look_at_function(thing)
        elif isinstance(thing, MethodType):
            self._look(thing.__self__)
            self._look(thing.__func__)
        elif isinstance(thing, BuiltinFunctionType):
            self._look(thing.__self__)  # a module, or what a method belongs to
        elif isinstance(thing, partial):
            for part in (thing.func, thing.args, thing.keywords):
                self._look(part)
        elif isinstance(thing, ReferenceType):
            self._references.append(thing)
            self._look(thing())
        elif isinstance(thing, (dict, list, tuple, set, frozenset)):
            if _makes_entries(type(thing)):
                self.doubt = f"a {type(thing).__name__}, whose entries code of its own makes"
                return
            self._look_into(thing)
            if not _is_library(type(thing)):
                self._look_at_class(type(thing))
                self._look(getattr(thing, "__dict__", None))
        elif isinstance(thing, ModuleType):
            pass
        elif _is_open(thing):
            if isinstance(thing, nn.Module):
                self._modules.add(id(vars(thing)))
            self._objects.append(thing)
            self._look_at_class(type(thing))
            self._look_into(vars(thing), typed=not type(thing).__module__.startswith("torch."))
        else:
            self.doubt = f"a {type(thing).__name__}"

    def _look_into(self, container: Any, *, typed: bool = True) -> None:
        self._live.append(container)
        if typed and isinstance(container, (dict, set)) and len(container) > 1:
            self._ordered.append(container)
        if typed and any(type(part) in (bool, int, float) for part in _values(container)):
            self._typed.append(container)
        if isinstance(container, (dict, list)):
            entries = container.items() if isinstance(container, dict) else enumerate(container)
            self._places += [(container, key) for key, x in entries if not isinstance(x, _PLAIN)]
        for part in list(_values(container)):
            self._look(part)

    def _look_at_class(self, kind: type) -> None:
        for ancestor in kind.__mro__:
            if id(ancestor) in self._seen or _is_library(ancestor):
                continue
            self._seen.add(id(ancestor))
            self._classes.append(ancestor)
            self._look_at_class(type(ancestor))
            for name, attribute in vars(ancestor).items():
                if not _counts(name, attribute):
                    continue
                self._names.append((vars(ancestor), name))
                if name not in _NOT_RUN:
                    plain = getattr(attribute, "__func__", getattr(attribute, "fget", attribute))
                    self._look(plain)

    def _look_at_function(self, function: FunctionType) -> None:
        if hasattr(function, "__wrapped__"):  # a decorator of torch, or of another library
            self._look(function.__wrapped__)
        if _is_library(function):
            return
        self._functions.append(function)
        for cell in function.__closure__ or ():
            self._cells.append(cell)
            self._look(_content(cell))
        self._look(function.__defaults__)
        self._look(function.__kwdefaults__)
        self._look_into(vars(function))
        for code in _codes(function.__code__):
            self._look_at_names(function.__globals__, code.co_names)

    def _look_at_names(self, names: dict[str, Any], used: tuple[str, ...]) -> None:
        """Globals that code refers to, and what it may mean of the modules among them."""
        self._absent.append((names, frozenset(used) - names.keys()))
        for name in used:
            if name not in names:
                continue
            value = names[name]
            self._names.append((names, name))
            if isinstance(value, ModuleType):
                if value.__name__.split(".", 1)[0] not in _LIBRARIES:
                    self._look_at_names(vars(value), used)
            elif isinstance(value, _LOOKED_AT) or not _is_library(type(value)):
                self._look(value)
            elif type(value).__module__ in _WITH_STATE:
                self.doubt = f"a {type(value).__name__}"


def _counts(name: str, attribute: Any) -> bool:
    """Return whether an attribute of a class can matter; flags and internals cannot."""
    if name == "training":
        return False
    return not name.startswith("__") or isinstance(attribute, FunctionType)


def _has_members(kind: type, names: frozenset[str]) -> bool:
    """Return whether a class has the attributes that it had."""
    now = vars(kind)
    if now.keys() == names:
        return True
    return names <= now.keys() and not any(_counts(name, now[name]) for name in now.keys() - names)


def _is_open(thing: Any) -> bool:
    """Return whether all of an object's state is in its attributes."""
    kind = type(thing)
    written = hasattr(thing, "__dict__") and not any(
        "__slots__" in vars(ancestor) and vars(ancestor)["__slots__"] for ancestor in kind.__mro__
    )
    own = all(ancestor is object or _is_heap_type(ancestor) for ancestor in kind.__mro__)
    ours = kind.__module__.split(".", 1)[0] in ("dubio", "torch")
    return isinstance(thing, (nn.Module, *_NAMESPACES)) or (
        written and own and (ours or not _is_library(kind))
    )


def _makes_entries(kind: type) -> bool:
    """Return whether to go through a container runs code of its class, which might do anything."""
    return any(
        isinstance(vars(ancestor).get(name), FunctionType)
        for ancestor in kind.__mro__
        if not _is_library(ancestor)
        for name in ("__iter__", "__len__", "keys", "values", "items")
    )


def _is_heap_type(kind: type) -> bool:
    """Return whether a class is written in Python, and not in C."""
    return bool(kind.__flags__ & (1 << 9)) and not hasattr(kind, "__array_interface__")


def _is_library(kind: Any) -> bool:
    return package(kind) in _LIBRARIES


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _values(container: Any) -> Any:
    return container.values() if isinstance(container, dict) else container


def _copy(container: Any) -> Any:
    for kind in (dict, list, set):
        if isinstance(container, kind):
            return kind(container)
    return container  # a tuple or frozenset, which stays as it is


def _form(tensor: Tensor) -> tuple[Any, ...]:
    strides = tensor.stride() if tensor.layout == torch.strided else None
    return tensor.shape, strides, tensor.dtype, tensor.device, tensor.requires_grad
