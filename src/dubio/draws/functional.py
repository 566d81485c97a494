"""Operations that write into their arguments, as functions that return what they would write."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from dubio.draws.traits import traits_of


@cache
def functional(operation: Any) -> Callable[..., Any]:
    """Return the new contents of the tensors that an operation writes, then other results."""
    places = traits_of(operation).written

    def run(*args: Any, **kwargs: Any) -> Any:
        given, named = list(args), dict(kwargs)
        written: list[Tensor] = []
        for position, name in places:
            holder: Any = given if position < len(given) else named
            key: Any = position if position < len(given) else name
            if holder is named and name not in named:
                continue
            holder[key] = _copy(holder[key])
            written += _tensors(holder[key])
        others = _tensors(operation(*given, **named))
        results = [*written, *(out for out in others if not any(out is w for w in written))]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def counterpart(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Torch's own operation with that effect, if it has one for these arguments.

    That is known of operations that write into their first argument and return it, where all
    tensors are of one type.
    """
    places, name = traits_of(operation).written, operation._opname
    if operation in (torch.ops.aten.copy_.default, torch.ops.aten.fill_.Tensor):
        return copied
    plain = getattr(torch.ops.aten, name[:-1], None) if name.endswith("_") else None
    if operation.namespace != "aten" or plain is None or [p for p, _ in places] != [0] or kwargs:
        return None
    tensors = [leaf for arg in args for leaf in _tensors(arg)]
    if any(x.dtype != tensors[0].dtype for x in tensors if x.is_floating_point() or x.is_complex()):
        return None
    return getattr(plain, operation._overloadname, None)


def copied(target: Tensor, source: Tensor, *_: Any) -> Tensor:
    """Return what a tensor holds after another one was copied into it."""
    return source.to(target.dtype).expand(target.shape)


def rearranged(source: Tensor, index: Tensor) -> Tensor:
    """Return entries of a tensor, by their place in it."""
    return source.reshape(-1)[index]


def patched(target: Tensor, source: Tensor, index: Tensor) -> Tensor:
    """Return a tensor with entries of another one in it, by their positions."""
    return torch.where(index < 0, target, source.reshape(-1)[index.clamp(min=0)])


def _copy(arg: Any) -> Any:
    if isinstance(arg, Tensor):
        return arg.clone()
    return [part.clone() for part in arg] if isinstance(arg, list | tuple) else arg


def _tensors(out: Any) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out]
    return (
        [leaf for leaf in out if isinstance(leaf, Tensor)] if isinstance(out, list | tuple) else []
    )
