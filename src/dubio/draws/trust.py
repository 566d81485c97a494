"""Which tapes have been compared with plain passes of their network, and what counts as equal."""

from collections.abc import Callable, Hashable
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from dubio.noise.equality import equal_up_to
from dubio.noise.inputs import Network, Select, networks

_trusted: WeakKeyDictionary[object, dict[Hashable, set[Hashable]]] = WeakKeyDictionary()


def trusted(model: Network, select: Select) -> set[Hashable]:
    """Return the signatures of tapes that can be trusted of a network, as called by some function.

    Nothing is known of other callables, whose tapes are compared every time.
    """
    owner = model if isinstance(model, nn.Module) else next(iter(networks(model)), None)
    way = None if isinstance(model, nn.Module) else _identity(model)
    choice = _identity(select) if callable(select) else (select,)
    if owner is None or choice is None or (way is None and owner is not model):
        return set()
    return _trusted.setdefault(owner, {}).setdefault((way, choice), set())


def _identity(function: Callable[..., Any]) -> tuple[Hashable, ...] | None:
    """Return the code of a function and what it refers to: the same for one that is made anew."""
    if isinstance(function, MethodType):
        return id(function.__self__), function.__func__
    if not isinstance(function, FunctionType):
        return None
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    try:
        around = tuple(map(id, cells))
    except ValueError:  # one that is not filled yet
        return None
    return function.__code__, around, tuple(map(id, function.__defaults__ or ()))


def agree(a: Tensor, b: Tensor, *others: Tensor) -> bool:
    """Return whether two computations of the same draw differ by no more than rounding.

    Other draws tell how large outputs are: in one of them there may be nothing but rounding.
    """
    loose = 5e-2 if a.dtype in (torch.bfloat16, torch.float16) else 1e-3
    return equal_up_to(loose, a, b, *others)
