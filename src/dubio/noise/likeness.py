"""A key that networks and inputs of the same behaviour share."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from dubio.noise.inputs import Inputs, Select, opened

_PLAIN = (bool, int, float, str, bytes, type(None))
_DEEP = 3


def likeness(
    model: Callable[..., Any],
    select: Select,
    modules: Iterable[nn.Module],
    batch: Inputs,
    flags: bool,
    volatile: Collection[tuple[int, Any]],
) -> Hashable:
    """Return a key for what a network does: its attributes, its weights by their versions, shapes.

    The numbers of rows and the like count by their size only: 5 is like 6, and not like 1 or 50.

    Args:
        model: The network, or a function.
        select: Which part of the output is meant.
        modules: All modules.
        batch: The inputs.
        flags: Whether it matters which modules are in train mode.
        volatile: Attributes that do not count, by the id of the dict that they are in.
    """
    leaves, spec = tree_flatten(opened(batch))
    return (
        _of(model, _DEEP),
        _of(select, _DEEP),
        str(spec),
        tuple(_of_input(x) if isinstance(x, Tensor) else _of(x, _DEEP) for x in leaves),
        tuple([_of_module(module, volatile) for module in modules]),
        tuple(module.training for module in modules) if flags else None,
    )


def _of_input(x: Tensor) -> Hashable:
    return x.dtype, tuple([n.bit_length() for n in x.shape])


def _of_module(module: nn.Module, volatile: Collection[tuple[int, Any]]) -> Hashable:
    return (
        id(module),
        *(
            (id(x), x._version)
            for x in (*module._parameters.values(), *module._buffers.values())
            if x is not None and not x.is_inference()
            if not volatile or (id(x), None) not in volatile
        ),
        type(module).forward,
        len(module._forward_hooks),
        len(module._forward_pre_hooks),
        *(
            (name, _of(value, _DEEP))
            for name, value in vars(module).items()
            if (name[0] != "_" or type(value) in _PLAIN) and name != "training"
            if not volatile or (id(vars(module)), name) not in volatile
        ),
    )


def _of(thing: Any, depth: int) -> Hashable:
    if type(thing) in _PLAIN:
        return type(thing), thing
    if isinstance(thing, Tensor | nn.Module) or depth == 0:
        return id(thing)
    if isinstance(thing, FunctionType):
        return thing.__code__, tuple(_of_cell(cell, depth) for cell in thing.__closure__ or ())
    if isinstance(thing, MethodType):
        return _of(thing.__self__, depth), _of(thing.__func__, depth)
    if isinstance(thing, partial):
        return tuple(_of(part, depth) for part in (thing.func, thing.args, thing.keywords))
    if isinstance(thing, Mapping):
        return tuple((name, _of(value, depth - 1)) for name, value in thing.items())
    if isinstance(thing, list | tuple | set | frozenset):
        return type(thing), tuple(_of(part, depth - 1) for part in thing)
    if isinstance(thing, type) or type(thing).__module__.startswith("torch"):
        return id(thing)
    inner = getattr(thing, "__dict__", None)
    return (type(thing), _of(inner, depth - 1)) if inner else id(thing)


def _of_cell(cell: Any, depth: int) -> Hashable:
    try:
        return _of(cell.cell_contents, depth - 1)
    except ValueError:  # not filled yet
        return None
