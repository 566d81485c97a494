"""A layer with other weights, for one call."""

from collections.abc import Mapping
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn import functional as F

Layer = TypeVar("Layer", bound=nn.Module)


def substitute(layer: Layer, weights: Mapping[str, Tensor]) -> Layer:
    """A twin of the layer that has some other weights and shares all the rest.

    The layer itself is not touched, not even for the time of a call, so that several threads may
    do this at once. Weights of modules inside the layer have dotted names.
    """
    twin = object.__new__(type(layer))
    twin.__dict__.update(layer.__dict__)
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
    """The output of the layer with other weights, all of them."""
    plain = type(layer) is nn.Linear and not (layer._forward_hooks or layer._forward_pre_hooks)
    if plain and len(args) == 1 and not kwargs:  # the most common layer, and the cheapest call
        return F.linear(args[0], weights["weight"], weights.get("bias"))
    return substitute(layer, weights)(*args, **kwargs)


def _inside(layer: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, nn.Module]:
    """Twins of the children that have other weights."""
    by_child: dict[str, dict[str, Tensor]] = {}
    for name, weight in weights.items():
        child, dot, rest = name.partition(".")
        if dot:
            by_child.setdefault(child, {})[rest] = weight
    return {child: substitute(layer.get_submodule(child), own) for child, own in by_child.items()}
