"""Inputs of a network, and which tensor of its output to use."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_is_leaf, tree_leaves, tree_map

from dubio.noise.numbers import Numbers
from dubio.noise.references import find_networks
from dubio.noise.run import Pass, run_pass

Network: TypeAlias = Callable[..., Any]
Inputs: TypeAlias = Tensor | Sequence[Any] | Mapping[str, Any]
_NO_BATCH = (
    "x: expected a tensor, a tuple or dict of tensors, or a DataLoader or list of batches, got {}; "
    "make tensors with torch.as_tensor"
)
Select: TypeAlias = str | int | Callable[[Any], Tensor] | None


def count_rows(inputs: Inputs) -> int:
    """Return the number of rows of the batch: the length of its first tensor."""
    found = [inputs] if isinstance(inputs, Tensor) else tensors(inputs)
    if not found:
        raise TypeError(_NO_BATCH.format(type(inputs).__name__))
    if found[0].dim() == 0 or len(found[0]) == 0:
        raise ValueError(
            f"x: expected a batch with at least one row, got shape {tuple(found[0].shape)}"
        )
    return len(found[0])


def with_rows(inputs: Inputs) -> list[Tensor]:
    """Return the tensors that have a row for each row of the batch: all those of its length."""
    rows = count_rows(inputs)
    return [x for x in tensors(inputs) if x.dim() and len(x) == rows]


def check(model: Network, inputs: Inputs) -> None:
    """Raise an error for inputs on which no network can give a valid answer."""
    if isinstance(model, nn.Module):
        _check_module(model, inputs)
    elif not callable(model):
        raise TypeError(f"model: expected an nn.Module or a function, got {type(model).__name__}")
    for tensor in tensors(inputs):
        if may_hold_nan(tensor):
            bad = tensor.isnan()
            if bad.any():
                row = int(bad.nonzero()[0, 0]) if tensor.dim() else 0
                raise ValueError(
                    f"x: expected numbers, got NaN in {int(bad.sum())} of {bad.numel()} entries, "
                    f"first in row {row}; drop or impute them"
                )


def may_hold_nan(tensor: Tensor) -> bool:
    """Return whether a number may be NaN, by a sum, which takes little time."""
    if not tensor.is_floating_point() or tensor.is_meta:
        return False
    return tensor.layout != torch.strided or not math.isfinite(tensor.detach().sum())


def _check_module(model: nn.Module, inputs: Inputs) -> None:
    homes: set[torch.device] = set()
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError(
                f"model: expected a network of Python modules, but {name or 'the network'} is "
                f"compiled by TorchScript, which hides its dropout; pass the module it was "
                f"scripted from"
            )
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is None:
                continue
            if is_lazy(tensor):
                raise ValueError(
                    f"model: expected a network with weights, got {name or 'one'} "
                    f"({type(module).__name__}), which has none yet; call it on a batch first"
                )
            homes.add(tensor.device)
    for tensor in tensors(inputs, whole=False):
        if homes and tensor.device not in homes:
            raise ValueError(elsewhere("x", homes, tensor.device))


def elsewhere(name: str, homes: Iterable[torch.device], device: torch.device) -> str:
    """Return the error for a tensor on another device than the network."""
    expected = " or ".join(sorted(map(str, homes)))
    return (
        f"{name}: expected a tensor on {expected}, where the network is, got one on {device}; "
        f"move one of them with .to(). dubio.predict and dubio.fit move batches of a DataLoader."
    )


def call(model: Network, inputs: Inputs, order: Tensor | None = None) -> Any:
    """Call the network with a tensor, a tuple (as arguments) or a dict (as named arguments).

    It gets copies, in case it writes over its inputs. With ``order`` it gets the rows with these
    indices.
    """
    return apply(model, copied(inputs, order))


def copied(inputs: Inputs, order: Tensor | None = None) -> Inputs:
    """Return the inputs, or the rows of them with these indices, in tensors of their own."""
    if order is None and isinstance(inputs, Tensor):
        return inputs.clone()
    batch = count_rows(inputs)

    def copy(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        if order is None or x.dim() == 0 or len(x) != batch:
            return x.clone()
        return x[order.to(x.device)]

    copies: Inputs = tree_map(copy, opened(inputs))
    return copies


def apply(model: Network, inputs: Inputs) -> Any:
    """Call the network with a tensor, a tuple (as arguments) or a dict (as named arguments)."""
    if isinstance(inputs, Tensor):
        return model(inputs)
    args, kwargs = as_arguments(inputs)
    return model(*args, **kwargs)


def as_arguments(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and named arguments from a tensor, a tuple or a dict."""
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    return ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})


def choose(output: Any, select: Select) -> Tensor:
    """Return the tensor that is meant among everything the network returns."""
    chosen = _select(output, select)
    if not isinstance(chosen, Tensor):
        raise TypeError(
            f"select: expected one tensor of the network's output, got "
            f"{_describe(chosen)}; pass select= with a key, an index or a function"
        )
    if chosen.is_nested or chosen.layout != torch.strided:
        kind = "nested" if chosen.is_nested else str(chosen.layout).removeprefix("torch.")
        raise TypeError(
            f"expected a dense output, got a {kind} tensor; pass select= with a function that "
            f"makes it dense, such as lambda y: "
            f"{'y.to_padded_tensor(0.0)' if chosen.is_nested else 'y.to_dense()'}"
        )
    if not chosen.is_floating_point():
        raise TypeError(
            f"expected a floating-point output, got {chosen.dtype}; select the scores or values "
            f"before they are rounded to labels"
        )
    if chosen.dim() == 0:
        raise ValueError(
            "expected an output with one row per row of x, got a single number; "
            "leave out the final reduction over the batch"
        )
    return chosen


def _select(output: Any, select: Select) -> Any:
    if select is None:
        found = tensors(output)
        return found[0] if len(found) == 1 and not isinstance(output, Tensor) else output
    if callable(select):
        return select(output)
    if isinstance(output, Tensor):
        raise KeyError(
            f"select={select!r}: the network returned one tensor of shape {tuple(output.shape)}; "
            f"leave select out, or pass a function of the output"
        )
    try:
        if isinstance(select, str) and not isinstance(output, Mapping):
            return getattr(output, select)
        return output[select]
    except (KeyError, IndexError, AttributeError, TypeError):
        raise KeyError(f"select={select!r}: the network returned {_describe(output)}") from None


def _describe(output: Any) -> str:
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} with keys {list(output)}"
    if is_dataclass(output):
        return f"a {type(output).__name__} with fields {[f.name for f in fields(output)]}"
    if isinstance(output, Sequence) and not isinstance(output, str):
        return f"a {type(output).__name__} of {len(output)} ({', '.join(map(_describe, output))})"
    if isinstance(output, Tensor):
        return f"a tensor of shape {tuple(output.shape)}"
    return f"a {type(output).__name__}"


def _is_packed(structure: Any) -> bool:
    return isinstance(structure, PackedSequence)


def tensors(structure: Any, *, whole: bool = True) -> list[Tensor]:
    """Return all tensors in nested tuples, lists, dicts and dataclasses.

    Args:
        structure: What they are in.
        whole: Whether that goes for packed sequences as well, whose lengths are always on the CPU;
            or their data alone.
    """
    if is_dataclass(structure) and not isinstance(structure, type):
        structure = [getattr(structure, field.name) for field in fields(structure)]
    leaves = tree_leaves(opened(structure), is_leaf=None if whole else _is_packed)
    opened_leaves = (leaf.data if _is_packed(leaf) else leaf for leaf in leaves)
    return [leaf for leaf in opened_leaves if isinstance(leaf, Tensor)]


def opened(structure: Any) -> Any:
    """Return a dict in place of a mapping that trees do not look into, such as a `UserDict`."""
    closed = isinstance(structure, Mapping) and tree_is_leaf(structure)
    return dict(structure) if closed else structure


def home_of(model: Network) -> torch.device | None:
    """Return where a network is: the device of its first parameter, or else of its first buffer."""
    for network in networks(model):
        for tensor in chain(network.parameters(), network.buffers()):
            return tensor.device
    return None


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on a device; checking first is faster than a needless ``to``.

    Nobody waits for copies to other devices, which work in order. A CPU would read a copy from
    there before it is complete.
    """
    if tensor.device == device:
        return tensor
    return tensor.to(device, non_blocking=device.type != "cpu")


def all_moved(structure: Any, device: torch.device | None) -> Any:
    """Return all tensors of a batch there; None leaves them where they are."""
    if device is None:
        return structure
    if isinstance(structure, Tensor):
        return moved(structure, device)
    if all(x.device == device for x in tensors(structure)):
        return structure

    def move(x: Any) -> Any:
        if isinstance(x, PackedSequence):  # whose lengths stay on the CPU
            return x.to(device)  # type: ignore[arg-type]
        return moved(x, device) if isinstance(x, Tensor) else x

    return tree_map(move, opened(structure), is_leaf=_is_packed)


def batches(x: Inputs | Iterable[Any], home: torch.device | None = None) -> Iterator[Inputs]:
    """Yield the one batch, or the inputs of every batch: pairs are taken for (inputs, targets).

    Args:
        x: A batch, which stays where it is, or an iterable of batches.
        home: Where batches of an iterable are moved to.
    """
    if isinstance(x, Tensor | tuple | Mapping):
        yield x
        return
    if not isinstance(x, Iterable) or isinstance(x, str | numpy.ndarray):
        raise TypeError(_NO_BATCH.format(type(x).__name__))
    # a DataLoader draws a number at this point: not from torch's generator, which others may use
    iterator = run_pass(lambda: iter(x), Pass(Numbers(0, range(1), shared=False), roots=None))
    for batch in iterator:
        if isinstance(batch, list | tuple):
            if len(batch) > 2:
                raise TypeError(
                    f"x: expected batches that are a tensor, a dict, (inputs,) or "
                    f"(inputs, targets), got a {type(batch).__name__} of {len(batch)}; yield "
                    f"((input, input, …), targets) for a network with several inputs"
                )
            batch = batch[0]
        yield all_moved(batch, home)


def networks(model: Network) -> list[nn.Module]:
    """Return the network, or the networks that a function or another callable refers to."""
    return find_networks(model)


def is_loader(x: Any) -> bool:
    """Return whether x yields batches instead of being one."""
    return isinstance(x, Iterable) and not isinstance(x, Tensor | tuple | Mapping)
