"""A layer with other weights, for one call."""

from collections.abc import Mapping
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook

Layer = TypeVar("Layer", bound=nn.Module)


def substitute(layer: Layer, weights: Mapping[str, Tensor]) -> Layer:
    """Return a twin of the layer that has some other weights and shares all the rest.

    The layer itself is not touched, not even for the time of a call, so that several threads may
    do this at once. Weights of modules inside the layer have dotted names.
    """
    twin = object.__new__(type(layer))
    twin.__dict__.update(layer.__dict__)
    _rebind(layer, twin)
    own = {name: weight for name, weight in weights.items() if "." not in name}
    twin.__dict__["_parameters"] = {**layer._parameters, **own}
    if len(own) < len(weights):
        twin.__dict__["_modules"] = {**layer._modules, **_inside(layer, weights)}
    if isinstance(twin, nn.RNNBase):  # which has a list of its weights as well
        names = twin._flat_weights_names
        twin.__dict__["_flat_weights"] = [getattr(twin, name, None) for name in names]
        twin.__dict__["_flat_weight_refs"] = [None] * len(names)
    return twin


def call_with(
    layer: nn.Module,
    weights: Mapping[str, Tensor],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return the output of the layer with other weights, all of them."""
    if is_plain_linear(layer) and len(args) == 1 and not kwargs:  # the cheapest call
        return F.linear(args[0], weights["weight"], weights.get("bias"))
    return substitute(layer, weights)(*args, **kwargs)


def is_plain_linear(layer: nn.Module) -> bool:
    """Return whether calling a layer is nothing but xWᵀ + b."""
    return type(layer) is nn.Linear and not (
        layer._forward_hooks
        or layer._forward_pre_hooks
        or layer._backward_hooks
        or layer._backward_pre_hooks
        or "forward" in layer.__dict__
    )


def is_alone(layer: nn.Module) -> bool:
    """Return whether a layer is exactly xWᵀ + b, and nothing observes it."""
    modes = torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack()
    watched = modes > 0 or torch.is_autocast_enabled("cpu") or _has_any_global_hook()
    return is_plain_linear(layer) and not watched


def _rebind(layer: nn.Module, twin: nn.Module) -> None:
    """Let methods that were set on the layer itself see the twin's weights."""
    for name, value in layer.__dict__.items():
        if isinstance(value, MethodType):
            if value.__self__ is layer:
                twin.__dict__[name] = MethodType(value.__func__, twin)
        elif name == "forward":
            raise ValueError(
                f"layer: expected a {type(layer).__name__} with the forward of its class, got one "
                f"whose forward was replaced by a function that may use other weights; make a "
                f"subclass with that forward, or set types.MethodType(forward, layer)"
            )


def _inside(layer: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, nn.Module]:
    """Twins of the children that have other weights."""
    by_child: dict[str, dict[str, Tensor]] = {}
    for name, weight in weights.items():
        child, dot, rest = name.partition(".")
        if dot:
            by_child.setdefault(child, {})[rest] = weight
    return {child: substitute(layer.get_submodule(child), own) for child, own in by_child.items()}
