"""Whether settings of two members mean the same, and whether a copy of a member is one.

All members are computed by one copy of the first. So what has no place among stacked tensors and
numbers must be the same in all: hooks, functions, objects. And whatever runs in the copy must be
its own: a copied function still refers to what the function of the first member does.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from inspect import getattr_static
from types import FunctionType, MethodType, ModuleType
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn


@final
class Sameness:
    """Tells whether a setting of one member means the same as that of another.

    Modules do if they have the same name in their members, functions if they have the same code
    and values, and objects that cannot be compared if they have the same attributes.

    Args:
        one: The modules of a member, by name.
        other: Those of the other.
    """

    def __init__(self, one: Mapping[str, nn.Module], other: Mapping[str, nn.Module]) -> None:
        self._one = {id(module): name for name, module in one.items()}
        self._other = {id(module): name for name, module in other.items()}
        self._begun: set[tuple[int, int]] = set()

    def __call__(self, one: Any, other: Any) -> bool:
        """Return whether two settings mean the same."""
        if one is other:
            return True
        if type(one) is not type(other):
            return False
        if (id(one), id(other)) in self._begun:  # they refer to themselves
            return True
        self._begun.add((id(one), id(other)))
        try:
            return self._compare(one, other)
        finally:
            self._begun.discard((id(one), id(other)))

    def _compare(self, one: Any, other: Any) -> bool:
        if isinstance(one, nn.Module):
            return id(one) in self._one and self._one[id(one)] == self._other.get(id(other))
        if isinstance(one, Tensor):
            return one.dtype == other.dtype and torch.equal(one, other)
        if isinstance(one, np.ndarray):
            return np.array_equal(one, other)
        if isinstance(one, FunctionType):
            return one.__code__ is other.__code__ and self(values_of(one), values_of(other))
        if isinstance(one, MethodType | partial):
            return self(bound_in(one), bound_in(other))
        if isinstance(one, list | tuple):
            return len(one) == len(other) and all(map(self, one, other))
        if isinstance(one, Mapping):
            return list(one) == list(other) and all(self(one[key], other[key]) for key in one)
        if isinstance(one, torch.Generator) or bool(one == other):
            return True
        compared_by_identity = getattr_static(one, "__eq__") is getattr_static(object, "__eq__")
        return compared_by_identity and hasattr(one, "__dict__") and self(vars(one), vars(other))


def behind_functions(value: Any) -> Iterator[Any]:
    """Return what functions in a setting refer to, which copies still refer to."""
    return _behind(value, False, set())


def _behind(value: Any, shared: bool, seen: set[int]) -> Iterator[Any]:
    if id(value) in seen or isinstance(value, str | int | float | type | ModuleType):
        return
    seen.add(id(value))
    if isinstance(value, nn.Module | Tensor):
        if shared:
            yield value
    elif isinstance(value, FunctionType):
        for part in values_of(value):
            yield from _behind(part, True, seen)
    elif isinstance(value, MethodType | partial):
        for part in bound_in(value):
            yield from _behind(part, shared, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _behind(part, shared, seen)
    elif isinstance(value, Mapping):
        yield from _behind(list(value.values()), shared, seen)
    elif hasattr(value, "__dict__"):
        yield from _behind(list(vars(value).values()), shared, seen)


def values_of(function: FunctionType) -> list[Any]:
    """Return the values that a function holds besides its code."""
    cells = [_content(cell) for cell in function.__closure__ or ()]
    return [*cells, *filter(None, (function.__defaults__, function.__kwdefaults__))]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def bound_in(function: Any) -> list[Any]:
    """Return the parts of a method or a partial function."""
    if isinstance(function, MethodType):
        return [function.__func__, function.__self__]
    return [function.func, function.args, function.keywords]
