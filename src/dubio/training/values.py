"""Plain values: numbers, tensors, arrays and containers of them, as files can hold them.

A value is written down as a pair of its kind and its content, in types that
``torch.load(weights_only=True)`` accepts. The written value does not change any more.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, MutableMapping, MutableSequence
from typing import Any, TypeAlias

import numpy
import torch
from torch import Tensor, nn

Written: TypeAlias = tuple[Any, ...]
Owner: TypeAlias = MutableMapping[Any, Any] | MutableSequence[Any]

_NUMBERS = (bool, int, float, str, type(None))
_ROWS: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
_PAIRS: dict[type, str] = {dict: "dict", OrderedDict: "OrderedDict"}
_KINDS: dict[str, Callable[[Any], Any]] = {k.__name__: k for k in (*_ROWS, *_PAIRS)}
_DEEP = 20  # containers in one another; what is deeper may hold itself


def is_number(value: object) -> bool:
    """Return whether a value is a number or a text, of Python's own classes."""
    return type(value) in _NUMBERS


def is_plain(value: object, depth: int = 0) -> bool:
    """Return whether a value can be written down."""
    if isinstance(value, numpy.ndarray | numpy.generic):
        return value.dtype.kind in "biufcmMSU"
    if type(value) in _ROWS or type(value) is deque:
        return depth < _DEEP and all(is_plain(part, depth + 1) for part in value)  # type: ignore[attr-defined]
    if type(value) in _PAIRS:
        pairs = value.items()  # type: ignore[attr-defined]
        return depth < _DEEP and all(is_plain(pair, depth + 1) for pair in pairs)
    if type(value) in (Tensor, nn.Parameter):
        return value.layout is torch.strided  # type: ignore[attr-defined]
    return is_number(value)


def written(value: Any) -> Written:
    """Return a plain value as a pair of kind and content."""
    if isinstance(value, numpy.ndarray | numpy.generic):
        content = torch.frombuffer(bytearray(value.tobytes()) or bytearray(1), dtype=torch.uint8)
        kind = "array" if isinstance(value, numpy.ndarray) else "scalar"
        return kind, content, value.dtype.str, list(value.shape)
    if type(value) in (set, frozenset):
        return _ROWS[type(value)], sorted(map(written, value), key=repr)
    if type(value) in _ROWS:
        return _ROWS[type(value)], list(map(written, value))
    if type(value) is deque:
        return "deque", list(map(written, value)), value.maxlen
    if type(value) in _PAIRS:
        return _PAIRS[type(value)], [(written(k), written(v)) for k, v in value.items()]
    if isinstance(value, Tensor):
        return "tensor", value.detach().clone(), str(value.device)
    return "number", value


def read(note: Written) -> Any:
    """Return the value that was written down."""
    kind, content, *more = note
    match kind:
        case "number":
            return content
        case "tensor":
            return content.to(more[0], copy=True)
        case "array" | "scalar":
            shape = tuple(more[1])
            flat = numpy.frombuffer(
                content.numpy().tobytes(), more[0], numpy.prod(shape, dtype=int)
            )
            return flat.reshape(shape).copy()[() if kind == "scalar" else ...]
        case "deque":
            return deque(map(read, content), *more)
        case "dict" | "OrderedDict":
            return _KINDS[kind]((read(k), read(v)) for k, v in content)
        case _:
            return _KINDS[kind](map(read, content))


def storable(state: Any) -> Any:
    """Return a state_dict as a file can hold it: as it is, or written down, a tuple."""
    return written(state) if _is_foreign(state) and is_plain(state) else state


def restored(state: Any) -> Any:
    """Return the state_dict that was stored."""
    return read(state) if isinstance(state, tuple) else state


def _is_foreign(state: Any) -> bool:
    """Return whether ``torch.load(weights_only=True)`` would refuse part of it."""
    if isinstance(state, dict):
        return any(map(_is_foreign, state.values()))
    if isinstance(state, list | tuple):
        return any(map(_is_foreign, state))
    return isinstance(state, numpy.ndarray | numpy.generic | deque | set | frozenset)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two notes, or other things of a file, are equal to the bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(v, other[k]) for k, v in one.items())
    if isinstance(one, Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and _bits(one) == _bits(other)
    return one is other or bool(one == other) or (one != one and other != other)


def put(owner: Owner, key: Any, note: Written) -> None:
    """Give the place of a value its value back, in place if others may know the object."""
    try:
        now = owner[key]
    except KeyError:
        owner[key] = read(note)
        return
    if is_plain(now) and is_same(written(now), note):
        return
    value = read(note)
    if isinstance(now, nn.Parameter):
        now.data = value
    elif type(now) is not type(value) or not _refill(now, value):
        owner[key] = value


def _refill(now: Any, value: Any) -> bool:
    """Give an object of the same class other content; False if it is none that can change."""
    if isinstance(now, Tensor):
        return _copy(now, value)
    if isinstance(now, numpy.ndarray):
        fits = now.shape == value.shape and now.dtype == value.dtype and now.flags.writeable
        if fits:
            now[...] = value
        return fits
    if isinstance(now, list):
        now[:] = value
    elif isinstance(now, set | dict):
        now.clear()
        now.update(value)
    elif isinstance(now, deque) and now.maxlen == value.maxlen:
        now.clear()
        now.extend(value)
    else:
        return False
    return True


def _copy(now: Tensor, value: Tensor) -> bool:
    if now.shape != value.shape or now.dtype != value.dtype or now.grad_fn is not None:
        return False
    try:
        now.data.copy_(value)
    except RuntimeError:  # it shares its memory with itself, as after expand
        return False
    return True


def _bits(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
