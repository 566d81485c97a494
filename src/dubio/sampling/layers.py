"""Runs of linear layers under shared masks, computed without the units that are dropped.

When all rows share a mask, a dropped unit is a column of zeros for the whole batch: the next layer
need not read it and the layer before need not compute it. So for every draw the weight matrix is
cut down to kept outputs and kept inputs, and the products shrink by keep² in the middle of a run::

    dropout -> linear -> relu -> dropout -> linear -> …
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.interception.numbers import Numbers
from dubio.interception.perturbations import Dropout
from dubio.sampling.batching import Operation
from dubio.sampling.steps import Call, Perturb, Slot, Step


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
        end = max((i for i, member in enumerate(run) if _is_linear(member)), default=0)
        while end + 1 < len(run) and _is_elementwise(run[end + 1]):
            end += 1
        if end == 0:
            continue
        replaced.update({id(member): None for member in run[:end]})
        first = run[0].action
        assert isinstance(first, Perturb)
        action = MaskedRun(first.x, _layers(run[: end + 1]))
        replaced[id(run[end])] = Step(action, run[end].outputs)
    return [kept for step in steps if (kept := replaced.get(id(step), step)) is not None]


def _run_from(step: Step, reads: Counter[Slot], reader: dict[Slot, Step]) -> list[Step]:
    """The steps that follow one another with nobody else looking."""
    run = [step]
    while True:
        (output,) = run[-1].outputs
        if reads[output] != 1:
            return run
        following = reader[output]
        fits = _is_linear(following) or _is_elementwise(following)
        if _drops_columns(following):
            fits = not _drops_columns(run[-1])
        if not fits:
            return run
        run.append(following)


def _layers(run: list[Step]) -> tuple[MaskedLinear, ...]:
    layers: list[MaskedLinear] = []
    dropout: Dropout | None = None
    functions: list[Operation] = []
    linear: tuple[Dropout | None, Tensor, Tensor | None] | None = None
    for step in run:
        action = step.action
        if isinstance(action, Perturb):
            assert isinstance(action.perturbation, Dropout)
            dropout = action.perturbation
        elif _is_linear(step):
            if linear is not None:
                layers.append(MaskedLinear(*linear, tuple(functions)))
            assert isinstance(action, Call)
            (_, weight, *rest), named = action.operation.with_values([None])
            linear = (dropout, weight, rest[0] if rest else named.get("bias"))
            dropout, functions = None, []
        else:
            assert isinstance(action, Call)
            functions.append(action.operation)
    assert linear is not None
    return (*layers, MaskedLinear(*linear, tuple(functions)))


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
