"""The flow of dropout through a network: where outputs of dropouts go, up to weight layers.

Every dropout module returns a tensor of its own. From there on it is noted which tensors carry its
output and what has happened to it on the way.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from types import FrameType
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.rnn import PackedSequence

from dubio.conversion.feeds import Feed, between, by_channel, difference, shifts
from dubio.conversion.passing import ScaledCall
from dubio.conversion.places import input_units
from dubio.noise import inputs
from dubio.noise.perturbations import Dropout
from dubio.noise.protocols import Perturbation, RandomNumbers
from dubio.noise.sites import calls_at_work
from dubio.noise.stochastic import Stochastic


@dataclass(frozen=True)
class _Way:
    """What has happened to a dropout's output on the way to a tensor.

    Attributes:
        obstacle: What it did not pass, if anything.
        rearranged: Whether dimensions have changed their places.
        pooled: Whether elements have been pooled.
    """

    obstacle: str | None = None
    rearranged: bool = False
    pooled: bool = False


@final
class Flow:
    """Follows the outputs of dropouts through one pass: the executor of an interceptor.

    Args:
        model: The network.
        layers: Its weight layers, with names.
        dropouts: The dropouts to follow.

    Attributes:
        packed: Layers that were called with packed sequences.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: Mapping[nn.Module, str],
        dropouts: Mapping[_DropoutNd, str],
    ) -> None:
        self.packed: set[nn.Module] = set()
        self._names: dict[nn.Module, str] = dict(layers)  # of what is not looked into
        self._names |= {m: name for name, m in model.named_modules() if isinstance(m, Stochastic)}
        self._layers = layers
        self._dropouts = dropouts
        self._carried: dict[int, tuple[Tensor, dict[_DropoutNd, _Way]]] = {}
        self._shapes: dict[_DropoutNd, torch.Size] = {}
        self._fed: dict[_DropoutNd, dict[nn.Module, str]] = defaultdict(dict)
        self._obstacles: dict[_DropoutNd, dict[str, str | None]] = defaultdict(dict)
        self._shapes_in: dict[nn.Module, torch.Size] = {}
        self._unfed: set[nn.Module] = set()
        self._calls: set[FrameType] = set()

    def perturb(self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Let a dropout be, but give its output an identity."""
        if not isinstance(perturbation, Dropout):
            return perturbation(numbers, x)[0]
        return self._drop(x, x.clone())

    def perturb_in_place(
        self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:
        """Let a dropout be that writes over its input, and over what that is a view of."""
        if x._is_view() and x._base is not None:
            self._drop(x._base, x._base)
        return self._drop(x, x)

    def own_randomness(self, name: str) -> None:
        """Nothing to note."""

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function and track the outputs of dropouts through it."""
        layer_call = self._layer_call()
        if layer_call is not None:
            self._enter(layer_call)
            return function(*args, **kwargs)
        output = function(*args, **kwargs)
        operation = ScaledCall(function, args, kwargs)
        carriers = [x for x in operation.tensors() if self._ways(x)]
        if carriers and not operation.asks(output):
            ways = self._behind(operation, carriers)
            for x in operation.outputs(output):
                self._carried[id(x)] = (x, ways)
        return output

    def end(self, returned: list[Tensor]) -> None:
        """Note what the network returns, and release the tensors of the pass."""
        for x in returned:
            for dropout, way in self._ways(x).items():
                self._stop(dropout, way, "what the network returns")
        self._carried.clear()
        self._calls.clear()

    def feed(self, dropout: _DropoutNd) -> Feed:
        """Return where the output of a dropout went."""
        if shifts(dropout):
            return Feed(obstacle=shifts(dropout))
        if dropout not in self._shapes:
            return Feed(obstacle="it is not reached on the example")
        layers = self._fed[dropout]
        for obstacle, behind in self._obstacles[dropout].items():
            if not layers:
                return Feed(obstacle=between(obstacle, behind))
            names = ", ".join(self._layers[layer] for layer in layers)
            return Feed(layers, f"its output goes to {names} and to {obstacle}")
        for layer in layers:
            if layer in self._unfed:
                return Feed(
                    layers, f"{self._layers[layer]} is also called on what it does not feed"
                )
            if any(d.p != dropout.p for d, fed in self._fed.items() if layer in fed):
                return Feed(
                    layers, f"{self._layers[layer]} is also fed by a dropout of another rate"
                )
        return Feed(layers, None if layers else "its output is not used")

    def note(self, layer: nn.Module, rows: int) -> str:
        """Describe effects of a mask on this layer that may surprise."""
        shape = self._shapes_in.get(layer)
        if shape is None:
            return "it is not called on the example, so a mask may never act"
        if layer in self.packed or input_units(layer) is None:
            return ""
        found = shape[_axis_of_rows(layer, len(shape))]
        if found == rows:
            return ""
        return f"its input has {found} rows where the batch has {rows}, each with its own mask"

    def _ways(self, x: Tensor) -> dict[_DropoutNd, _Way]:
        """Return the dropouts whose output a tensor carries."""
        return self._carried[id(x)][1] if id(x) in self._carried else {}

    def _drop(self, x: Tensor, output: Tensor) -> Tensor:
        ways = {d: self._stop(d, way, "another dropout") for d, way in self._ways(x).items()}
        module = next(calls_at_work()).f_locals["self"]
        if module in self._dropouts:
            self._shapes[module] = x.shape
            ways[module] = _Way()
        self._carried[id(output)] = (output, ways)
        return output

    def _behind(self, operation: ScaledCall, carriers: list[Tensor]) -> dict[_DropoutNd, _Way]:
        """Return which dropouts the outputs of an operation carry."""
        scaled = operation.scales(lambda x: any(x is carrier for carrier in carriers))
        if scaled is None:
            return {
                dropout: self._stop(dropout, way, str(operation))
                for x in carriers
                for dropout, way in self._ways(x).items()
            }
        return {
            dropout: self._stop(dropout, way, "pooling")
            if operation.pools and way.rearranged  # over channels, perhaps
            else replace(
                way,
                rearranged=way.rearranged or operation.rearranges,
                pooled=way.pooled or operation.pools,
            )
            for dropout, way in self._ways(scaled).items()
        }

    def _stop(self, dropout: _DropoutNd, way: _Way, obstacle: str) -> _Way:
        if way.obstacle is not None:
            return way
        self._obstacles[dropout].setdefault(obstacle, None)
        return replace(way, obstacle=obstacle)

    def _layer_call(self) -> FrameType | None:
        """Return the running layer's call, if any."""
        calls = [call for call in calls_at_work() if call.f_locals["self"] in self._names]
        return calls[-1] if calls else None

    def _enter(self, call: FrameType) -> None:
        """Note which dropouts feed a call of a layer."""
        if call in self._calls:
            return
        self._calls.add(call)
        layer = call.f_locals["self"]
        bound = signature(type(layer).forward).bind(
            layer, *call.f_locals["args"], **call.f_locals["kwargs"]
        )
        arguments = list(bound.arguments.values())[1:]
        masked = arguments[: _inputs_with_weights(layer)]
        if any(isinstance(x, PackedSequence) for x in masked):
            self.packed.add(layer)
        self._shapes_in[layer] = inputs.tensors(masked)[0].shape
        ways = [self._ways_into(x, layer) for x in masked]
        fed = {
            dropout
            for dropout in ways[0]
            if layer in self._layers and all(way.get(dropout) == _Way() for way in ways)
        }
        for dropout, way in self._ways_into(arguments, layer).items():
            if way.obstacle is not None:
                behind = self._obstacles[dropout][way.obstacle]
                self._obstacles[dropout][way.obstacle] = behind or self._names[layer]
            elif dropout in fed:
                self._fed[dropout][layer] = difference(
                    dropout,
                    layer,
                    dims=len(self._shapes_in[layer]),
                    channels=self._channels(dropout),
                    features=input_units(layer),
                )
            elif layer in self._layers:
                self._stop(dropout, way, f"only some of the inputs of {self._names[layer]}")
            else:
                self._stop(dropout, way, f"{self._names[layer]}, which is stochastic already")
        if not fed:
            self._unfed.add(layer)

    def _ways_into(self, arguments: Any, layer: nn.Module) -> dict[_DropoutNd, _Way]:
        """Return the dropouts whose output reaches a layer, with or without pooling between."""
        found: dict[_DropoutNd, _Way] = {}
        for x in inputs.tensors(arguments):
            for dropout, way in self._ways(x).items():
                pooled = way.pooled and not by_channel(dropout, layer)
                found[dropout] = (
                    self._stop(dropout, way, "pooling") if pooled else _Way(way.obstacle)
                )
        return found

    def _channels(self, dropout: _DropoutNd) -> int | None:
        shape = self._shapes[dropout]
        return shape[1] if len(shape) > 1 else None


def _axis_of_rows(layer: nn.Module, dims: int) -> int:
    """Return where `dubio.Masked` takes the rows to be."""
    in_time = isinstance(layer, nn.RNNBase | nn.MultiheadAttention) and not layer.batch_first
    return 1 if in_time and dims > 2 else 0


def _inputs_with_weights(layer: nn.Module) -> int:
    """Return how many of a layer's arguments meet its weights."""
    if isinstance(layer, nn.MultiheadAttention):
        return 3
    return 2 if isinstance(layer, nn.Bilinear) else 1
