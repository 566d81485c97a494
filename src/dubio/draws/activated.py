"""A linear layer with dropout, ReLU and dropout around it, in one step.

Torch multiplies by a mask, adds the bias, cuts off what is negative and multiplies by a mask again
in passes of their own, each through memory. The kernels do all of it while rows are in the cache.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.draws.arguments import Slot
from dubio.draws.steps import Call, Perturb, Play, Step
from dubio.native.layers import activate
from dubio.native.products import RowDropout, begins_runs, row_layer, to_panels, width
from dubio.native.stream import usable
from dubio.noise.perturbations import Dropout
from dubio.noise.protocols import RandomNumbers

# Below, torch's products are faster: weights are laid out anew for those of the kernels.
MANY_ROWS, MANY_WEIGHTS = 256, 2**10

RELUS = frozenset({torch.ops.aten.relu.default, torch.ops.aten.relu_.default})


@final
class ActivatedLinear:
    """Such a step. Where the kernels cannot help, it is the steps that it is made of.

    Args:
        steps: The linear layer, with a dropout before it or not, and behind it a ReLU, a dropout,
            both or nothing.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._before = _dropout_of(steps[0])
        linear = steps[0] if self._before is None else steps[1]
        assert isinstance(linear, Call)
        x, self._weight, *rest = linear.arguments.args
        self._bias = rest[0] if rest else linear.arguments.kwargs.get("bias")
        self._shape = x.shape  # of one draw
        self._rows = x.shape[:-1].numel()
        self._relu = any(map(_is_relu, steps))
        self._after = _dropout_of(steps[-1])
        self._x = steps[0].x if isinstance(steps[0], Perturb) else x
        read = (self._x, self._weight, self._bias)
        self.inputs = [part for part in read if isinstance(part, Slot)]
        self.outputs = steps[-1].outputs

    @property
    def signature(self) -> Hashable:
        """Return those of its steps."""
        return tuple(step.signature for step in self._steps)

    def play(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Compute the result of all draws."""
        x, weight = _value(self._x, values), _value(self._weight, values)
        bias = _value(self._bias, values)
        result = self._activated(x, weight, bias, numbers)
        if result is not None:
            values[self.outputs[0].number] = result
            return
        for step in self._steps:
            step.play(values, numbers)

    def compiled(self) -> Play:
        """Return the same."""
        return self.play

    def _activated(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, numbers: RandomNumbers
    ) -> Tensor | None:
        """Compute it by the kernels; None if they cannot."""
        given = (x, weight) if bias is None else (x, weight, bias)
        if not all(map(is_plain, given)):
            return None
        draws, rows, inner = len(numbers.indices), self._rows, weight.shape[1]
        after = None
        if self._after is not None:
            after = _row_dropout(self._after, numbers)
            if after is None:
                return None
        bias = None if bias is None else bias.contiguous()
        large = draws * rows >= MANY_ROWS and weight.numel() >= MANY_WEIGHTS
        before = None
        if self._before is not None:
            before = _row_dropout(self._before, numbers) if large and begins_runs(inner) else None
            if before is None:
                x = self._before(numbers, x)
        if not large or not width():
            result = torch.mm(x.reshape(-1, inner), weight.t())
            activate(result, bias, relu=self._relu, dropout=after)
        else:
            x = x.contiguous().view(*(() if x.shape == self._shape else (draws,)), rows, inner)
            within = after if begins_runs(len(weight)) else None
            result = row_layer(
                x,
                to_panels(weight),
                bias,
                draws=draws,
                outputs=len(weight),
                relu=self._relu,
                before=before,
                after=within,
            )
            if after is not within:
                activate(result, None, relu=False, dropout=after)
        return result.view(draws, *self.outputs[0].shape)


def _value(x: Any, values: list[Any]) -> Any:
    return values[x.number] if isinstance(x, Slot) else x


def is_plain(x: Tensor) -> bool:
    """Return whether the kernels can read it, and no gradient is wanted."""
    learned = torch.is_grad_enabled() and x.requires_grad
    return not learned and usable(x.detach() if isinstance(x, torch.nn.Parameter) else x)


def _row_dropout(dropout: Dropout, numbers: RandomNumbers) -> RowDropout | None:
    """Describe it for the kernels; None if they cannot make its masks."""
    stream = numbers.stream((dropout.site,))
    if stream is None or not 0.0 < dropout.keep < 1.0:
        return None
    return RowDropout(stream, dropout.keep, dropout.scale)


def fuse_activations(steps: Sequence[Step], outputs: Sequence[Slot]) -> list[Step]:
    """Put linear layers, ReLUs and dropouts that follow one another into single steps."""
    reads = Counter([*outputs, *(slot for step in steps for slot in step.inputs)])
    reader = {slot: step for step in steps for slot in step.inputs}
    maker = {slot: step for step in steps for slot in step.outputs}
    fused: dict[int, Step | None] = {}
    for step in steps:
        if not _is_float32(step) or not is_linear(step) or not _has_one_weight(step):
            continue
        run = [step]
        for fits in (_is_relu, _is_dropout):
            if reads[run[-1].outputs[0]] == 1:
                following = reader.get(run[-1].outputs[0])
                run += [following] if following is not None and fits(following) else []
        made, large = maker.get(step.inputs[0]), width() and _weights_of(step) >= MANY_WEIGHTS
        if large and made is not None and id(made) not in fused and _is_dropout(made):
            run = [made, *run] if reads[step.inputs[0]] == 1 else run
        if large or len(run) > 1:
            fused.update({id(member): None for member in run})
            fused[id(run[-1])] = ActivatedLinear(run)
    return [kept for step in steps if (kept := fused.get(id(step), step)) is not None]


def is_linear(step: Step) -> bool:
    """Return whether it is a linear layer with a matrix, and one number by unit for a bias if any.

    Torch takes vectors for weights, and lays biases of other shapes over the result.
    """
    if not isinstance(step, Call) or step.function is not F.linear or step.arguments.deep:
        return False
    args = step.arguments.args
    if len(args) < 2 or len(args[1].shape) != 2:
        return False
    bias = args[2] if len(args) > 2 else step.arguments.kwargs.get("bias")
    return bias is None or tuple(bias.shape) == (args[1].shape[0],)


def _has_one_weight(step: Step) -> bool:
    """Return whether only its input differs among draws."""
    return isinstance(step, Call) and step.arguments.stacked == [0]


def _weights_of(step: Step) -> int:
    assert isinstance(step, Call)
    shape: torch.Size = step.arguments.args[1].shape
    return shape.numel()


def _is_float32(step: Step) -> bool:
    return step.outputs[0].dtype == torch.float32


def _is_relu(step: Step) -> bool:
    return isinstance(step, Call) and step.function in RELUS


def _is_dropout(step: Step) -> bool:
    return _dropout_of(step) is not None


def _dropout_of(step: Step) -> Dropout | None:
    """Return plain dropout with an entry of the mask for every entry of its input, else None."""
    if not isinstance(step, Perturb) or not isinstance(step.perturbation, Dropout):
        return None
    dropout = step.perturbation
    return dropout if dropout.is_plain and dropout.layout.shape == step.x.shape else None
