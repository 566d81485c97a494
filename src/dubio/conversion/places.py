"""Places: the weight layers of a network that a rule may replace."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, final

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from dubio.conversion.kinds import is_patched, is_plain
from dubio.noise.stochastic import Stochastic

_WEIGHT_LAYERS = (
    nn.Linear,
    nn.Bilinear,
    _ConvNd,
    nn.RNNBase,
    nn.RNNCellBase,
    nn.MultiheadAttention,
    nn.Embedding,
    nn.EmbeddingBag,
)
_CLOSED = (*_WEIGHT_LAYERS, Stochastic)  # what is inside is their own affair


@final
@dataclass(frozen=True)
class Place:
    """A weight layer of a network, as a rule sees it.

    Attributes:
        name: Dotted path of the layer; empty if it is the whole network.
        layer: The layer itself.
        drop: Rate of the dropout that feeds the layer and is removed if the layer is replaced. None
            if no dropout feeds it, or one that has to stay.
        features: Number of input units that a mask would have; None if its inputs cannot be masked.
    """

    name: str
    layer: nn.Module
    drop: float | None
    features: int | None

    @property
    def module(self) -> nn.Module:
        """The layer, under the name that ``where=`` uses."""
        return self.layer


Rule: TypeAlias = Callable[[Place], nn.Module | None]
"""What to put in the place of a layer; None leaves it alone."""


def input_units(layer: nn.Module) -> int | None:
    """Return how many units a mask of the layer's inputs has; None if they cannot be masked."""
    units: int | None = None
    if not is_known(layer):
        return None
    if isinstance(layer, nn.Linear):
        units = layer.in_features
    elif isinstance(layer, _ConvNd):
        units = layer.in_channels
    elif isinstance(layer, nn.RNNBase):
        units = layer.input_size
    elif isinstance(layer, nn.MultiheadAttention) and layer._qkv_same_embed_dim:
        units = layer.embed_dim
    return units


def weight_layers(model: nn.Module) -> dict[nn.Module, str]:
    """Return all weight layers that are not stochastic yet, each with its first name."""
    layers: dict[nn.Module, str] = {
        module: name
        for name, module in _outside_layers(model)
        if isinstance(module, _WEIGHT_LAYERS)
    }
    for layer, name in layers.items():
        if any(is_lazy(parameter) for parameter in layer.parameters()):
            raise ValueError(
                f"{name or 'model'}: expected a layer with weights, got an uninitialised "
                f"{type(layer).__name__}; call the network on a batch first"
            )
    return layers


def is_known(layer: nn.Module) -> bool:
    """Return whether a weight layer uses its weights and inputs as torch's own layers do."""
    return is_plain(layer, _WEIGHT_LAYERS)


def dropout_modules(model: nn.Module) -> dict[_DropoutNd, str]:
    """Return all dropout modules that drop anything, each with its first name."""
    return {
        module: name
        for name, module in _outside_layers(model)
        if isinstance(module, _DropoutNd) and module.p > 0
    }


def computed_weight(layer: nn.Module) -> str | None:
    """Return the name of a weight that a hook computes anew for every call.

    That is what the older weight_norm, spectral_norm and pruning of torch do. Between calls such a
    weight is stale, so nothing can be said about its norm.
    """
    plain = (name for name, value in vars(layer).items() if isinstance(value, Tensor))
    return next((name for name in plain if "weight" in name), None)


def obstacle(layer: nn.Module) -> str | None:
    """Return why nothing can be put around a layer; None if something can."""
    weight = computed_weight(layer)
    if weight is not None:
        return f"a hook computes its {weight}; use torch.nn.utils.parametrizations, or remove it"
    if is_patched(layer):
        return "its forward was replaced, which would go on with the weights of before; undo that"
    return None


def containers(model: nn.Module) -> list[nn.Module]:
    """Return the modules whose children may be replaced."""
    return [module for _, module in _outside_layers(model) if not isinstance(module, _CLOSED)]


def _outside_layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield modules with names, without the inside of weight layers and stochastic modules."""
    seen: set[nn.Module] = set()

    def visit(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
        if module in seen:
            return
        seen.add(module)
        yield name, module
        if not isinstance(module, _CLOSED):
            for child_name, child in module.named_children():
                yield from visit(f"{name}.{child_name}" if name else child_name, child)

    return visit("", model)
