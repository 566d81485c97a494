"""Runs of linear layers of which every draw has its own: masks that all rows share, or weights.

When all rows share a mask, a dropped unit is a column of zeros for the whole batch: the next layer
need not read it and the layer before need not compute it. So products shrink by keep² in the middle
of a run::

    dropout -> linear -> relu -> dropout -> linear -> …

The kernels pass over what is dropped; torch cuts the weights of every draw down. Where that costs
more than it saves, products are done for all draws at once, dropped units and all. So are they
where a number is NaN or infinite, as zero times that is NaN in the network itself.

Layers whose weights differ among draws are such runs too, for the kernels: a batch stays in the
form that their products read from layer to layer.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from dubio.draws.activated import RELUS, is_plain
from dubio.draws.arguments import Operand, Slot
from dubio.draws.steps import Call, Perturb, Play, Step
from dubio.native.products import (
    Sampling,
    from_panels,
    to_panels,
    unit_layer,
    width,
)
from dubio.native.weights import readable
from dubio.noise.perturbations import Dropout, Spread
from dubio.noise.protocols import RandomNumbers
from dubio.noise.vectorised import is_vectorised

GROUP_BYTES = 2**20  # values of a layer for the draws that go through a run together


@dataclass(frozen=True)
class MaskedLinear:
    """A dropout of the inputs, if any, a linear layer, and elementwise functions behind it.

    Attributes:
        sampling: The step that draws its weights, if that is part of the run.
    """

    dropout: Dropout | None
    weight: Operand  # (K, D)
    bias: Operand | None
    functions: tuple[Call, ...]
    sampling: Perturb | None = None

    @property
    def scale(self) -> float:
        """The factor of inputs that are kept."""
        return 1.0 if self.dropout is None else self.dropout.scale


@dataclass(frozen=True)
class _LayerWeights:
    """The values of a layer's weights, or of their means if they are drawn on the way."""

    weight: Tensor  # (K, D) or (S, K, D)
    bias: Tensor | None
    sampling: Sampling | None

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors among them."""
        deviation = None if self.sampling is None else self.sampling.deviation
        return [x for x in (self.weight, self.bias, deviation) if x is not None]

    def of(self, start: int, stop: int) -> "_LayerWeights":
        """Return those of some draws."""
        weight, bias, sampling = self.weight, self.bias, self.sampling
        if sampling is not None:
            first = sampling.stream.first + start
            stream = replace(sampling.stream, first=first, draws=stop - start)
            sampling = sampling._replace(stream=stream)
        return _LayerWeights(
            weight if weight.dim() == 2 else weight[start:stop],
            bias if bias is None or bias.dim() == 1 else bias[start:stop],
            sampling,
        )


@final
class MaskedRun:
    """A run of such layers; only its first input and its last output are seen from outside."""

    def __init__(self, steps: Sequence[Step], layers: Sequence[MaskedLinear]) -> None:
        first = steps[0]
        sampling = [layer.sampling for layer in layers if layer.sampling is not None]
        self._steps = [*sampling, *steps]
        self._x = first.x if isinstance(first, Perturb) else _arguments(first)[0]
        self._layers = layers
        self._drops = any(layer.dropout is not None for layer in layers)
        own = {layer.weight for layer in layers if layer.sampling is not None}
        read = [self._x, *(part for layer in layers for part in (layer.weight, layer.bias))]
        read += [step.x for step in sampling]
        self.inputs = [part for part in read if isinstance(part, Slot) and part not in own]
        self.outputs = steps[-1].outputs

    @property
    def signature(self) -> Hashable:
        """The sizes of the layers and the functions between them."""
        return tuple(
            (layer.dropout is None, layer.weight.shape, tuple(f.signature for f in layer.functions))
            for layer in self._layers
        )

    def play(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Compute the output of all draws."""
        x = _value(self._x, values)  # (S, B, D) or (B, D)
        weights = [_weights(layer, values, numbers) for layer in self._layers]
        known = [own for own in weights if own is not None]
        given = [x, *(part for own in known for part in own.tensors)]
        compute = None
        if len(known) == len(weights) and (not self._drops or all(map(_is_finite, given))):
            if width() and all(map(is_plain, given)):
                compute = self._by_kernels
            elif all(own.weight.dim() == 2 and own.sampling is None for own in known):
                compute = self._by_torch
        if compute is None:
            for step in self._steps:
                step.play(values, numbers)
            return
        masks = [
            None if layer.dropout is None else layer.dropout.mask(numbers, x).flatten(1)
            for layer in self._layers
        ]  # (S, D) each
        values[self.outputs[0].number] = compute(x, masks, known, len(numbers.indices))

    def compiled(self) -> Play:
        """Return the same."""
        return self.play

    def _by_kernels(
        self, x: Tensor, masks: list[Tensor | None], weights: list[_LayerWeights], draws: int
    ) -> Tensor:  # (S, B, K)
        """Compute them without any copies, some draws at a time."""
        rows = x.shape[-2]
        alike = to_panels(x) if x.dim() == 2 else None  # (P, D, W)
        widest = max(own.weight.shape[-2] for own in weights)
        size = max(1, GROUP_BYTES // (4 * widest * -(-rows // width()) * width()))
        outputs: list[Tensor] = []
        for start in range(0, draws, size):
            stop = min(start + size, draws)
            h = to_panels(x[start:stop]) if alike is None else alike
            kept = [None if mask is None else mask[start:stop] for mask in masks]
            for layer, ins, outs, own in zip(
                self._layers, kept, [*kept[1:], None], weights, strict=True
            ):
                relu = bool(layer.functions) and layer.functions[0].function in RELUS
                weight = own.of(start, stop)
                h = unit_layer(
                    h,
                    weight.weight,
                    weight.bias,
                    rows=rows,
                    draws=stop - start,
                    inputs=ins,
                    outputs=outs,
                    scale=layer.scale,
                    relu=relu,
                    sampling=weight.sampling,
                )
                for call in layer.functions[relu:]:
                    h = call.function(h, *call.arguments.args[1:], **call.arguments.kwargs)
            outputs.append(from_panels(h, rows))
        return torch.cat(outputs)

    def _by_torch(
        self, x: Tensor, masks: list[Tensor | None], weights: list[_LayerWeights], draws: int
    ) -> Tensor:  # (S, B, K)
        """Compute them with weights that are cut down for every draw."""
        return torch.stack(
            [
                self._one_draw(
                    x if x.dim() == 2 else x[draw],
                    [None if mask is None else mask[draw].nonzero().view(-1) for mask in masks],
                    weights,
                )
                for draw in range(draws)
            ]
        )

    def _one_draw(
        self, x: Tensor, units: list[Tensor | None], weights: list[_LayerWeights]
    ) -> Tensor:  # (B, D) -> (B, K)
        if units[0] is not None:
            x = x.index_select(1, units[0])
        for layer, inputs, outputs, own in zip(
            self._layers, units, [*units[1:], None], weights, strict=True
        ):
            weight, bias = own.weight, own.bias
            if outputs is not None:
                weight = weight.index_select(0, outputs)
                bias = None if bias is None else bias.index_select(0, outputs)
            if inputs is not None:
                weight = weight.index_select(1, inputs)
            if bias is None:
                x = torch.mm(x, weight.t()).mul_(layer.scale)
            else:
                x = torch.addmm(bias, x, weight.t(), alpha=layer.scale)
            for call in layer.functions:
                x = call.function(x, *call.arguments.args[1:], **call.arguments.kwargs)
        return x


def _weights(
    layer: MaskedLinear, values: list[Any], numbers: RandomNumbers
) -> _LayerWeights | None:
    """Return the weights of a layer; None if they are to be drawn on the way and cannot."""
    bias = _value(layer.bias, values)
    if layer.sampling is None:
        return _LayerWeights(_value(layer.weight, values), bias, None)
    spread = layer.sampling.perturbation
    assert isinstance(spread, Spread)
    stream = numbers.stream((spread.site, spread.call))
    deviation = _value(layer.sampling.x, values)
    if stream is None or not (readable(spread.mean) and readable(deviation)):
        return None
    return _LayerWeights(spread.mean, bias, Sampling(stream, spread.start, deviation))


def _is_finite(x: Tensor) -> bool:
    """Return whether all numbers are finite; overflow of their sum counts as not finite."""
    return is_vectorised(x) or math.isfinite(x.detach().sum())


def _value(x: Any, values: list[Any]) -> Any:
    return values[x.number] if isinstance(x, Slot) else x


def _arguments(step: Step) -> list[Any]:
    assert isinstance(step, Call)
    return step.arguments.args
