"""Where runs of masked layers are in a line of steps, and whether they pay."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import torch

from dubio.draws.activated import is_linear
from dubio.draws.arguments import Slot
from dubio.draws.masked_layers import MaskedLinear, MaskedRun
from dubio.draws.steps import Call, Perturb, Step
from dubio.native.products import begins_runs, width
from dubio.noise.perturbations import Dropout, Spread

# What leaving units of a layer out costs for one draw, in multiplications. With torch, which cuts
# its weights: by itself, and for every number that is copied; measured on one core for 32 to 512
# units and 1 to 128 rows. The kernels compute so many rows at least.
CUT, COPY = 800_000, 20
PASS_OVER, LEAST_ROWS = 100_000, 16


def fuse_masked_layers(steps: list[Step], outputs: Sequence[Slot]) -> list[Step]:
    """Replace runs of masked linear layers by single steps, where that is faster."""
    reads = Counter([*outputs, *(slot for step in steps for slot in step.inputs)])
    reader = {slot: step for step in steps for slot in step.inputs}
    makers = {step.outputs[0]: step for step in steps if _draws_weights(step)}
    replaced: dict[int, Step | None] = {}
    for step in steps:
        if id(step) in replaced or not (_drops_columns(step) or _has_own_weights(step)):
            continue
        run = _run_from(step, reads, reader)
        if _drops_columns(run[-1]):  # by itself
            continue
        replaced.update({id(member): member for member in run})
        layers = _layers(run)
        if not _pays(layers, rows=run[-1].outputs[0].shape[0]):
            continue
        layers = _drawing(layers, makers, reads)
        drawn = [layer.sampling for layer in layers if layer.sampling is not None]
        replaced.update({id(member): None for member in (*run, *drawn)})
        replaced[id(run[-1])] = MaskedRun(run, layers)
    return [kept for step in steps if (kept := replaced.get(id(step), step)) is not None]


def _pays(layers: Sequence[MaskedLinear], rows: int) -> bool:
    """Return whether skipping multiplications saves more than it costs."""
    if any(isinstance(layer.weight, Slot) and not layer.weight.fixed for layer in layers):
        return width() > 0 and rows >= LEAST_ROWS
    keeps = [1.0 if layer.dropout is None else layer.dropout.keep for layer in layers]
    computed = -(-rows // LEAST_ROWS) * LEAST_ROWS if width() else rows
    gain = 0.0
    for layer, inputs, outputs in zip(layers, keeps, [*keeps[1:], 1.0], strict=True):
        gain += layer.weight.shape.numel() * (rows - computed * inputs * outputs)
        copied = layer.weight.shape.numel() * outputs * (1 + inputs)
        gain -= PASS_OVER if width() else CUT + COPY * copied
    return gain > 0


def _run_from(step: Step, reads: Counter[Slot], reader: dict[Slot, Step]) -> list[Step]:
    """Follow a step as far as a run goes, with nobody else looking in between.

    A dropout must feed a linear layer at once, so the run never ends with one.
    """
    run = [step]
    while reads[run[-1].outputs[0]] == 1 and run[-1].outputs[0] in reader:
        following = reader[run[-1].outputs[0]]
        expected = _is_linear if _drops_columns(run[-1]) else _fits
        if not expected(following) or following.inputs[0] is not run[-1].outputs[0]:
            break
        run.append(following)
    if _drops_columns(run[-1]) and len(run) > 1:
        run.pop()
    return run


def _fits(step: Step) -> bool:
    return _is_linear(step) or _is_elementwise(step) or _drops_columns(step)


def _layers(run: list[Step]) -> list[MaskedLinear]:
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
    return layers


def _drawing(
    layers: Sequence[MaskedLinear], makers: Mapping[Slot, Perturb], reads: Counter[Slot]
) -> list[MaskedLinear]:
    """Let the kernels draw weights on the way where they can."""
    drawing: list[MaskedLinear] = []
    for layer, following in zip(layers, [*layers[1:], None], strict=True):
        weight = layer.weight
        if isinstance(weight, Slot) and weight in makers and reads[weight] == 1:
            spread = makers[weight].perturbation
            assert isinstance(spread, Spread)
            all_outputs = following is None or following.dropout is None
            if all_outputs and begins_runs(weight.shape[1], spread.start):
                layer = replace(layer, sampling=makers[weight])
        drawing.append(layer)
    return drawing


def _draws_weights(step: Step) -> TypeGuard[Perturb]:
    return isinstance(step, Perturb) and isinstance(step.perturbation, Spread)


def _drops_columns(step: Step) -> bool:
    """Return whether it is plain dropout of whole columns of a matrix."""
    if not isinstance(step, Perturb) or not isinstance(step.perturbation, Dropout):
        return False
    dropout = step.perturbation
    shape, index = dropout.layout.shape, dropout.layout.index
    plain = not dropout.shift and not dropout.fill and dropout.keep > 0
    return plain and len(shape) == 2 and shape[0] == 1 and index is None


def _is_linear(step: Step) -> bool:
    """Return whether it is a linear layer on a matrix, whose parts may differ among draws."""
    return is_linear(step) and len(step.outputs[0].shape) == 2


def _has_own_weights(step: Step) -> bool:
    """Return whether it is such a layer, and its weights do."""
    return _is_linear(step) and isinstance(step, Call) and 1 in step.arguments.stacked


def _is_elementwise(step: Step) -> bool:
    """Return whether it is a function of each entry alone."""
    return (
        isinstance(step, Call)
        and torch.Tag.pointwise in getattr(step.function, "tags", ())
        and step.arguments.stacked == [0]
        and step.arguments.tensors == 1
    )
