"""Which weight layers each dropout feeds, or why it has to stay."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from dubio.conversion.kinds import is_plain


@final
@dataclass
class Feed:
    """Where the output of a dropout goes.

    Attributes:
        layers: The weight layers that it feeds, with how a mask of their inputs would differ from
            the dropout; empty where it would not.
        obstacle: Why the dropout has to stay; None if it feeds these layers and nothing else.
    """

    layers: dict[nn.Module, str] = field(default_factory=dict)
    obstacle: str | None = None


@final
@dataclass(frozen=True)
class Feeds:
    """What is known about dropout in a network.

    Attributes:
        by_dropout: Where the output of each dropout module goes.
        functions: Names of dropout that is no module.
        packed: Recurrent layers that were called with packed sequences.
        notes: What else a run has shown about layers.
    """

    by_dropout: dict[_DropoutNd, Feed]
    functions: tuple[str, ...] = ()
    packed: frozenset[nn.Module] = frozenset()
    notes: Mapping[nn.Module, str] = field(default_factory=dict)


def shifts(dropout: nn.Module) -> str | None:
    """Describe a dropout that does more than multiply by 0 or 1/keep."""
    if not is_plain(dropout, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)):
        return f"{type(dropout).__name__} does more than multiply by a mask"
    if dropout._parameters or dropout._buffers or dropout._modules:
        return "it holds parameters, buffers or modules, which would be lost"
    return None


def between(obstacle: object, layer: str | None) -> str:
    """Return why a dropout has to stay that has an obstacle behind it, and then perhaps a layer."""
    if layer is None:
        return f"its output goes to {obstacle}"
    return f"{obstacle} stands between it and {layer}"


def by_channel(dropout: nn.Module, layer: nn.Module) -> bool:
    """Return whether the mask is one of whole channels, before or after it moves to the layer."""
    return isinstance(layer, _ConvNd) or not isinstance(dropout, nn.Dropout)


def difference(
    dropout: nn.Module,
    layer: nn.Module,
    *,
    dims: int | None = None,
    channels: int | None = None,
    features: int | None = None,
) -> str:
    """Return how a mask of the layer's inputs differs from the dropout; empty if it does not.

    Args:
        dropout: The dropout that feeds the layer.
        layer: The layer.
        dims: Number of dimensions of the layer's input, if known.
        channels: Number of channels that the dropout sees, if known.
        features: Number of units of the layer's input, if known.
    """
    if not isinstance(dropout, nn.Dropout):
        same = isinstance(layer, _ConvNd) or (channels is not None and channels == features)
        return "" if same else "masks features where it dropped channels"
    if isinstance(layer, _ConvNd):
        return "masks channels where it dropped elements"
    if isinstance(layer, nn.RNNBase | nn.MultiheadAttention) or (dims or 0) > 2:
        return "one mask for all positions of a row"
    return ""
