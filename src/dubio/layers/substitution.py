"""A layer with other weights, for one call."""

from collections.abc import Mapping
from typing import TypeVar

from torch import Tensor, nn

Layer = TypeVar("Layer", bound=nn.Module)


def substitute(layer: Layer, weights: Mapping[str, Tensor]) -> Layer:
    """A twin of the layer that has some other weights and shares all the rest.

    The layer itself is not touched, not even for the time of a call, so that several threads may
    do this at once.
    """
    twin = object.__new__(type(layer))
    twin.__dict__.update(layer.__dict__)
    twin.__dict__["_parameters"] = {**layer._parameters, **weights}
    if isinstance(twin, nn.RNNBase):  # which has a list of its weights as well
        names = twin._flat_weights_names
        twin.__dict__["_flat_weights"] = [getattr(twin, name, None) for name in names]
        twin.__dict__["_flat_weight_refs"] = [None] * len(names)
    return twin
