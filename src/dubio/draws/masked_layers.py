"""Runs of linear layers under shared masks, computed without the units that are dropped.

When all rows share a mask, a dropped unit is a column of zeros for the whole batch: the next layer
need not read it and the layer before need not compute it. So for every draw the weight matrix is
cut down to kept outputs and kept inputs, and the products shrink by keep² in the middle of a run::

    dropout -> linear -> relu -> dropout -> linear -> …
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.draws.batching import Operation
from dubio.draws.steps import Call, Perturb, Slot, Step
from dubio.noise.numbers import Numbers
from dubio.noise.perturbations import Dropout


@dataclass(frozen=True)
class MaskedLinear:
    """A dropout of the inputs, if any, a linear layer, and elementwise functions behind it."""

    dropout: Dropout | None
    weight: Tensor  # (K, D)
    bias: Tensor | None
    functions: tuple[Operation, ...]


@dataclass(frozen=True)
class MaskedRun:
    """A run of such layers; only its first input and its last output are seen from outside."""

    x: Slot | Tensor
    layers: tuple[MaskedLinear, ...]

    @property
    def operands(self) -> list[Any]:
        """What the step reads."""
        return [self.x]

    @property
    def signature(self) -> Hashable:
        """The sizes of the layers and the functions between them."""
        return tuple(
            (layer.dropout is None, layer.weight.shape, tuple(f.signature for f in layer.functions))
            for layer in self.layers
        )

    def run(self, numbers: Numbers, values: list[Tensor]) -> list[Tensor]:
        """The output of all draws."""
        x = values[0] if isinstance(self.x, Slot) else self.x  # (S, B, D) or (B, D)
        draws = len(numbers.indices)
        kept = [self._kept(layer.dropout, numbers, x) for layer in self.layers]
        outputs = [
            self._one_draw(x if x.dim() == 2 else x[s], [units[s] for units in kept])
            for s in range(draws)
        ]
        return [torch.stack(outputs)]  # (S, B, K)

    @staticmethod
    def _kept(dropout: Dropout | None, numbers: Numbers, x: Tensor) -> Sequence[Tensor | None]:
        """Indices of the units that each draw keeps."""
        if dropout is None:
            return [None] * len(numbers.indices)
        return [mask.view(-1).nonzero().view(-1) for mask in dropout.mask(numbers, x)]

    def _one_draw(self, x: Tensor, kept: list[Tensor | None]) -> Tensor:  # (B, D) -> (B, K)
        if kept[0] is not None:
            x = x.index_select(1, kept[0])
        for layer, inputs, outputs in zip(self.layers, kept, [*kept[1:], None], strict=True):
            weight, bias = layer.weight, layer.bias
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
            for function in layer.functions:
                (x,) = function.call([x])
        return x


def fuse_masked_layers(steps: list[Step]) -> list[Step]:
    """Replace runs of masked linear layers by single steps."""
    reads = Counter(slot for step in steps for slot in step.inputs)
    reader = {slot: step for step in steps for slot in step.inputs}
    replaced: dict[int, Step | None] = {}
    for step in steps:
        if id(step) in replaced or not _drops_columns(step):
            continue
        run = _run_from(step, reads, reader)
        if len(run) == 1:
            continue
        replaced.update({id(member): None for member in run})
        first = run[0].action
        assert isinstance(first, Perturb)
        replaced[id(run[-1])] = Step(MaskedRun(first.x, _layers(run)), run[-1].outputs)
    return [kept for step in steps if (kept := replaced.get(id(step), step)) is not None]


def _run_from(step: Step, reads: Counter[Slot], reader: dict[Slot, Step]) -> list[Step]:
    """A dropout and the steps behind it that form a run, with nobody else looking in between.

    A dropout must feed a linear layer at once, so the run never ends with one.
    """
    run = [step]
    while reads[run[-1].outputs[0]] == 1:
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
        action = step.action
        if isinstance(action, Perturb):
            assert isinstance(action.perturbation, Dropout)
            dropout = action.perturbation
            continue
        assert isinstance(action, Call)
        if _is_linear(step):
            (_, weight, *rest), named = action.operation.with_values([None])
            bias = rest[0] if rest else named.get("bias")
            layers.append(MaskedLinear(dropout, weight, bias, ()))
            dropout = None
        else:
            functions = (*layers[-1].functions, action.operation)
            layers[-1] = replace(layers[-1], functions=functions)
    return tuple(layers)


def _drops_columns(step: Step) -> bool:
    """Whether it is plain dropout of whole columns of a matrix."""
    action = step.action
    if not isinstance(action, Perturb) or not isinstance(action.perturbation, Dropout):
        return False
    dropout = action.perturbation
    shape, index = dropout.layout.shape, dropout.layout.index
    plain = not dropout.shift and not dropout.fill and dropout.keep > 0
    return plain and len(shape) == 2 and shape[0] == 1 and index is None


def _is_linear(step: Step) -> bool:
    action = step.action
    return (
        isinstance(action, Call)
        and action.operation.function is F.linear
        and action.operation.stacked == (0,)
        and len(action.operation.shapes[0]) == 2
        and len(action.operation.with_values([None])[0]) >= 2
    )


def _is_elementwise(step: Step) -> bool:
    """Whether it is a function of each entry alone."""
    action = step.action
    return (
        isinstance(action, Call)
        and torch.Tag.pointwise in getattr(action.operation.function, "tags", ())
        and action.operation.tensors() == [0]
        and action.operation.stacked == (0,)
    )
