"""Runs of linear layers under shared masks, computed without the units that are dropped.

When all rows share a mask, a dropped unit is a column of zeros for the whole batch: the next layer
need not read it and the layer before need not compute it. So for every draw the weight matrix is
cut down to kept outputs and kept inputs, and the products shrink by keep² in the middle of a run::

    dropout -> linear -> relu -> dropout -> linear -> …

Where that costs more than it saves, products are done for all draws at once, dropped units and all.
So are they where a number is NaN or infinite, as zero times that is NaN in the network itself.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.draws.activated import RELUS, is_linear, is_plain
from dubio.draws.arguments import Slot
from dubio.draws.steps import Call, Perturb, Play, Step
from dubio.native.layers import KeptUnits, activate, cut
from dubio.noise.perturbations import Dropout
from dubio.noise.protocols import RandomNumbers
from dubio.noise.vectorised import is_vectorised

# What cutting the weights of a layer costs for one draw, in multiplications: by itself, and for
# every number that is copied. Measured on one core for 32 to 512 units and 1 to 128 rows.
CUT, COPY = 800_000, 20


@dataclass(frozen=True)
class MaskedLinear:
    """A dropout of the inputs, if any, a linear layer, and elementwise functions behind it."""

    dropout: Dropout | None
    weight: Slot | Tensor  # (K, D)
    bias: Slot | Tensor | None
    functions: tuple[Call, ...]


@final
class MaskedRun:
    """A run of such layers; only its first input and its last output are seen from outside."""

    def __init__(self, x: Slot | Tensor, layers: Sequence[MaskedLinear], output: Slot) -> None:
        self._x = x
        self._layers = layers
        read = [x, *(part for layer in layers for part in (layer.weight, layer.bias))]
        self.inputs = [part for part in read if isinstance(part, Slot)]
        self.outputs = [output]

    @property
    def signature(self) -> Hashable:
        """The sizes of the layers and the functions between them."""
        return tuple(
            (layer.dropout is None, layer.weight.shape, tuple(f.signature for f in layer.functions))
            for layer in self._layers
        )

    def play(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Return the output of all draws."""
        x = _value(self._x, values)  # (S, B, D) or (B, D)
        kept = [self._kept(layer.dropout, numbers, x) for layer in self._layers]
        weights = [
            (_value(layer.weight, values), _value(layer.bias, values)) for layer in self._layers
        ]
        given = [x, *(part for own in weights for part in own if part is not None)]
        if not all(map(_is_finite, given)):
            one_draw = self._whole
        else:
            one_draw = self._by_kernels if all(map(is_plain, given)) else self._by_torch
        outputs = [
            one_draw(x if x.dim() == 2 else x[s], [units[s] for units in kept], weights)
            for s in range(len(numbers.indices))
        ]
        values[self.outputs[0].number] = torch.stack(outputs)  # (S, B, K)

    def compiled(self) -> Play:
        """Return the same."""
        return self.play

    @staticmethod
    def _kept(dropout: Dropout | None, numbers: RandomNumbers, x: Tensor) -> list[KeptUnits | None]:
        """Return the units that each draw keeps."""
        if dropout is None:
            return [None] * len(numbers.indices)
        masks = dropout.mask(numbers, x).flatten(1)  # (S, D)
        return list(map(KeptUnits, masks.unbind(), masks.sum(1, dtype=torch.int64).tolist()))

    def _by_kernels(
        self, x: Tensor, kept: list[KeptUnits | None], weights: list[tuple[Tensor, Tensor | None]]
    ) -> Tensor:  # (B, D) -> (B, K)
        """With one pass to cut weights, and one for bias and ReLU."""
        if kept[0] is not None:
            x = cut(x, None, kept[0])
        for layer, inputs, outputs, own in zip(
            self._layers, kept, [*kept[1:], None], weights, strict=True
        ):
            scale = 1.0 if layer.dropout is None else layer.dropout.scale
            bias = None if own[1] is None else cut(own[1][None], None, outputs)
            x = torch.mm(x, cut(own[0], outputs, inputs, scale).t())
            relu = bool(layer.functions) and layer.functions[0].function in RELUS
            if relu or bias is not None:
                activate(x, bias, relu=relu)
            for call in layer.functions[relu:]:
                x = call.function(x, *call.arguments.args[1:], **call.arguments.kwargs)
        return x

    def _whole(
        self, x: Tensor, kept: list[KeptUnits | None], weights: list[tuple[Tensor, Tensor | None]]
    ) -> Tensor:  # (B, D) -> (B, K)
        """With the units that are dropped: what is not finite shows, as in the network."""
        for layer, inputs, (weight, bias) in zip(self._layers, kept, weights, strict=True):
            if inputs is not None:
                assert layer.dropout is not None
                x = x * (inputs.mask * layer.dropout.scale)
            x = F.linear(x, weight, bias)
            for call in layer.functions:
                x = call.function(x, *call.arguments.args[1:], **call.arguments.kwargs)
        return x

    def _by_torch(
        self, x: Tensor, kept: list[KeptUnits | None], weights: list[tuple[Tensor, Tensor | None]]
    ) -> Tensor:  # (B, D) -> (B, K)
        units = [None if part is None else part.mask.nonzero().view(-1) for part in kept]
        if units[0] is not None:
            x = x.index_select(1, units[0])
        for layer, inputs, outputs, own in zip(
            self._layers, units, [*units[1:], None], weights, strict=True
        ):
            weight, bias = own
            if outputs is not None:
                weight = weight.index_select(0, outputs)
                bias = None if bias is None else bias.index_select(0, outputs)
            if inputs is not None:
                weight = weight.index_select(1, inputs)
            scale = 1.0 if layer.dropout is None else layer.dropout.scale
            if bias is None:
                x = torch.mm(x, weight.t()) if scale == 1.0 else torch.mm(x, weight.t()).mul_(scale)
            else:
                x = torch.addmm(bias, x, weight.t(), alpha=scale)
            for call in layer.functions:
                x = call.function(x, *call.arguments.args[1:], **call.arguments.kwargs)
        return x


def _is_finite(x: Tensor) -> bool:
    """Return whether all numbers are finite; overflow of their sum counts as not finite."""
    return is_vectorised(x) or math.isfinite(x.detach().sum())


def _value(x: Any, values: list[Any]) -> Any:
    return values[x.number] if isinstance(x, Slot) else x


def fuse_masked_layers(steps: list[Step], outputs: Sequence[Slot]) -> list[Step]:
    """Replace runs of masked linear layers by single steps, where that is faster."""
    reads = Counter([*outputs, *(slot for step in steps for slot in step.inputs)])
    reader = {slot: step for step in steps for slot in step.inputs}
    replaced: dict[int, Step | None] = {}
    for step in steps:
        if id(step) in replaced or not _drops_columns(step):
            continue
        run = _run_from(step, reads, reader)
        if len(run) == 1:
            continue
        replaced.update({id(member): member for member in run})
        layers = _layers(run)
        if not _pays(layers, rows=run[-1].outputs[0].shape[0]):
            continue
        replaced.update({id(member): None for member in run})
        first = run[0]
        assert isinstance(first, Perturb)
        replaced[id(run[-1])] = MaskedRun(first.x, layers, run[-1].outputs[0])
    return [kept for step in steps if (kept := replaced.get(id(step), step)) is not None]


def _pays(layers: Sequence[MaskedLinear], rows: int) -> bool:
    """Return whether skipping multiplications saves more than it costs."""
    keeps = [1.0 if layer.dropout is None else layer.dropout.keep for layer in layers]
    gain = 0.0
    for layer, inputs, outputs in zip(layers, keeps, [*keeps[1:], 1.0], strict=True):
        copied = outputs * (1 + inputs) * COPY
        gain += layer.weight.shape.numel() * (rows * (1 - inputs * outputs) - copied) - CUT
    return gain > 0


def _run_from(step: Step, reads: Counter[Slot], reader: dict[Slot, Step]) -> list[Step]:
    """Return a dropout and the steps behind it that form an unobserved run.

    A dropout must feed a linear layer at once, so the run never ends with one.
    """
    run = [step]
    while reads[run[-1].outputs[0]] == 1 and run[-1].outputs[0] in reader:
        following = reader[run[-1].outputs[0]]
        expected = _is_linear if _drops_columns(run[-1]) else _fits
        if not expected(following):
            break
        run.append(following)
    if _drops_columns(run[-1]):
        run.pop()
    return run or [step]


def _fits(step: Step) -> bool:
    return _is_linear(step) or _is_elementwise(step) or _drops_columns(step)


def _layers(run: list[Step]) -> tuple[MaskedLinear, ...]:
    """Cut a run before each dropout and each linear layer without one."""
    layers: list[MaskedLinear] = []
    dropout: Dropout | None = None
    for step in run:
        if isinstance(step, Perturb):
            assert isinstance(step.perturbation, Dropout)
            dropout = step.perturbation
            continue
        assert isinstance(step, Call)
        if _is_linear(step):
            _, weight, *rest = step.arguments.args
            bias = rest[0] if rest else step.arguments.kwargs.get("bias")
            layers.append(MaskedLinear(dropout, weight, bias, ()))
            dropout = None
        else:
            layers[-1] = replace(layers[-1], functions=(*layers[-1].functions, step))
    return tuple(layers)


def _drops_columns(step: Step) -> bool:
    """Return whether it is plain dropout of whole columns of a matrix."""
    if not isinstance(step, Perturb) or not isinstance(step.perturbation, Dropout):
        return False
    dropout = step.perturbation
    shape, index = dropout.layout.shape, dropout.layout.index
    plain = not dropout.shift and not dropout.fill and dropout.keep > 0
    return plain and len(shape) == 2 and shape[0] == 1 and index is None


def _is_linear(step: Step) -> bool:
    return is_linear(step) and len(step.outputs[0].shape) == 2


def _is_elementwise(step: Step) -> bool:
    """Return whether it is a function of each entry alone."""
    return (
        isinstance(step, Call)
        and torch.Tag.pointwise in getattr(step.function, "tags", ())
        and step.arguments.stacked == [0]
        and step.arguments.tensors == 1
    )
