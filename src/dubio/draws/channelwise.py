"""Operations that treat channels apart: on some of the channels they give those of the result.

Here channels are the entries along any one axis. Operations that are not known here mix them.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.draws.arguments import Operand, Slot
from dubio.draws.steps import Call

aten = torch.ops.aten

# A value and its axis of channels -> some of the channels, the same for all values.
Share: TypeAlias = Callable[[Operand, int], Operand]
# How to call an operation on some of the channels, as many as are told.
OnSome: TypeAlias = Callable[[Share, int], tuple[Callable[..., Any], list[Any]]]


def on_some_channels(call: Call, x: Slot, axis: int) -> OnSome | None:
    """Return how to carry out a call on some channels only; None if it mixes channels.

    Args:
        call: The call. Other values than x among its arguments are fixed, or like x.
        x: An argument.
        axis: The axis of its channels, and of those of the result.
    """
    function, args = call.function, call.arguments.args
    named = list(call.arguments.kwargs.values())
    if _holds_tensors(named) or any(map(_holds_tensors, [*args, *named])):
        return None
    if function in _NORMS:
        return _norm(call) if axis == 1 and args[0] is x and not _NORMS[function](args) else None
    if torch.Tag.pointwise in getattr(function, "tags", ()) or function in _ELEMENTWISE:
        return _elementwise(call, x, axis)
    if args[0] is not x or call.arguments.tensors > 1:
        return None
    if function is aten.view.default:
        return _view(call, x, axis)
    if function in _APART and _APART[function](args, axis, len(x.shape)):
        return lambda share, _: (function, [share(x, axis), *args[1:]])
    return None


def _elementwise(call: Call, x: Slot, axis: int) -> OnSome | None:
    """Broadcast from the last axis: some operands have one entry for all channels."""
    shape = x.shape
    if len(call.outputs) > 1 or call.outputs[0].shape != shape or call.mutates:
        return None

    def on_some(share: Share, _: int) -> tuple[Callable[..., Any], list[Any]]:
        def part(arg: Any) -> Any:
            if not isinstance(arg, Slot | Tensor):
                return arg
            own = axis - len(shape) + len(arg.shape)
            return arg if own < 0 or arg.shape[own] != shape[axis] else share(arg, own)

        return call.function, list(map(part, call.arguments.args))

    return on_some


def _norm(call: Call) -> OnSome:
    """Scale, shift and statistics have one entry for each channel."""
    x, *numbers, training, momentum, epsilon = call.arguments.args
    rest = [training, momentum, epsilon]

    def on_some(share: Share, _: int) -> tuple[Callable[..., Any], list[Any]]:
        parts = [None if number is None else share(number, 0) for number in numbers]
        return call.function, [share(x, 1), *parts, *rest]

    return on_some


def _view(call: Call, x: Slot, axis: int) -> OnSome | None:
    """Merge or split axes behind that of the channels."""
    shape = call.outputs[0].shape
    if shape[: axis + 1] != x.shape[: axis + 1]:
        return None

    def on_some(share: Share, length: int) -> tuple[Callable[..., Any], list[Any]]:
        return aten.reshape.default, [
            share(x, axis),
            [*shape[:axis], length, *shape[axis + 1 :]],
        ]

    return on_some


def _holds_tensors(arg: Any) -> bool:
    return isinstance(arg, list | tuple) and any(isinstance(part, Slot | Tensor) for part in arg)


def _last(count: int) -> Callable[[Sequence[Any], int, int], bool]:
    """Works on the last axes, so many."""
    return lambda args, axis, dims: axis < dims - count


def _not_padded(args: Sequence[Any], axis: int, dims: int) -> bool:
    return axis < dims - len(args[1]) // 2


def _not_cut(args: Sequence[Any], axis: int, dims: int) -> bool:
    return len(args) > 1 and args[1] % dims != axis


def _not_averaged(args: Sequence[Any], axis: int, dims: int) -> bool:
    return bool(args[1]) and all(dim % dims > axis for dim in args[1])


# Whether operations on one tensor treat channels apart, from arguments, axis and number of axes.
_APART: dict[Any, Callable[[Sequence[Any], int, int], bool]] = {
    aten.alias.default: _last(0),
    aten.detach.default: _last(0),
    aten._to_copy.default: _last(0),
    aten.constant_pad_nd.default: _not_padded,
    aten.slice.Tensor: _not_cut,
    aten.mean.dim: _not_averaged,
} | {
    getattr(aten, name).default: _last(axes)
    for axes, names in {
        1: "upsample_nearest1d upsample_linear1d reflection_pad1d replication_pad1d",
        2: "max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d reflection_pad2d "
        "replication_pad2d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d",
        3: "max_pool3d_with_indices avg_pool3d _adaptive_avg_pool3d upsample_nearest3d "
        "upsample_trilinear3d",
    }.items()
    for name in names.split()
}
# Elementwise operations that torch does not call so.
_ELEMENTWISE = frozenset({aten.hardswish.default, aten._prelu_kernel.default})
# Whether a normalisation uses statistics of the batch, from its arguments.
_NORMS: dict[Any, Callable[[Sequence[Any]], bool]] = {
    aten.native_batch_norm.default: lambda args: bool(args[5]),
}


def summed_axes(call: Call) -> tuple[int, int] | None:
    """Return the axes of input and weight that a call sums over; None if it does not.

    Input and weight are its first arguments.
    """
    args = call.arguments.args
    if call.function is aten.convolution.default:
        x, weight, *_, transposed, _, groups = args
        whole = groups == 1 and len(x.shape) == len(weight.shape)
        return (1, 0 if transposed else 1) if whole else None
    if call.function is F.linear and len(args) > 1 and len(args[1].shape) == 2:
        return len(args[0].shape) - 1, 1
    return None


def without_bias(call: Call) -> list[Any]:
    """Return the arguments of such a call, but for what the sum begins with."""
    first, rest = call.arguments.args[:2], call.arguments.args[3:]
    return [*first, None, *rest] if rest else first
