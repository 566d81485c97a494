"""A linear layer, a ReLU and a dropout in one step: the product, and one pass over its result.

Torch adds the bias, cuts off what is negative and multiplies by the mask in passes of their own,
each through memory. The kernels do all of it while a block is in the cache, in place.
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
from dubio.native.stream import usable
from dubio.noise.perturbations import Dropout
from dubio.noise.protocols import RandomNumbers

RELUS = frozenset({torch.ops.aten.relu.default, torch.ops.aten.relu_.default})


@final
class ActivatedLinear:
    """Such a step. Where the kernels cannot help, it is the steps that it is made of.

    Args:
        steps: The linear layer, and behind it a ReLU, a dropout, or both.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        linear, *behind = steps
        assert isinstance(linear, Call)
        self._steps = steps
        self._x, self._weight, *rest = linear.arguments.args
        self._bias = rest[0] if rest else linear.arguments.kwargs.get("bias")
        self._relu = isinstance(behind[0], Call)
        last = behind[-1]
        self._dropout = last.perturbation if isinstance(last, Perturb) else None
        self.inputs = linear.inputs
        self.outputs = last.outputs

    @property
    def signature(self) -> Hashable:
        """Those of its steps."""
        return tuple(step.signature for step in self._steps)

    def play(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Return the result of all draws."""
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
        """By the kernels; None if they cannot."""
        given = (x, weight) if bias is None else (x, weight, bias)
        if not all(map(is_plain, given)):
            return None
        dropout = None
        if self._dropout is not None:
            assert isinstance(self._dropout, Dropout)
            stream = numbers.stream((self._dropout.site,))
            if stream is None or not 0.0 < self._dropout.keep < 1.0:
                return None
            dropout = stream, self._dropout.keep, self._dropout.scale
        product = torch.mm(x.reshape(-1, x.shape[-1]), weight.t())
        activate(product, None if bias is None else bias.contiguous(), relu=self._relu,
                 dropout=dropout)  # fmt: skip
        return product.view(*x.shape[:-1], -1)


def _value(x: Any, values: list[Any]) -> Any:
    return values[x.number] if isinstance(x, Slot) else x


def is_plain(x: Tensor) -> bool:
    """Return whether the kernels can read it, and no gradient is wanted."""
    learned = torch.is_grad_enabled() and x.requires_grad
    return not learned and usable(x.detach() if isinstance(x, torch.nn.Parameter) else x)


def fuse_activations(steps: Sequence[Step], outputs: Sequence[Slot]) -> list[Step]:
    """Put linear layers, ReLUs and dropouts that follow one another into single steps."""
    reads = Counter([*outputs, *(slot for step in steps for slot in step.inputs)])
    reader = {slot: step for step in steps for slot in step.inputs}
    fused: dict[int, Step | None] = {}
    for step in steps:
        run = [step] if _is_float32(step) and is_linear(step) else []
        for fits in (_is_relu, _is_dropout):
            if run and reads[run[-1].outputs[0]] == 1:
                following = reader.get(run[-1].outputs[0])
                run += [following] if following is not None and fits(following) else []
        if len(run) > 1:
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
    if step.arguments.stacked != [0] or len(args) < 2 or len(args[1].shape) != 2:
        return False
    bias = args[2] if len(args) > 2 else step.arguments.kwargs.get("bias")
    return bias is None or tuple(bias.shape) == (args[1].shape[0],)


def _is_float32(step: Step) -> bool:
    return step.outputs[0].dtype == torch.float32


def _is_relu(step: Step) -> bool:
    return isinstance(step, Call) and step.function in RELUS


def _is_dropout(step: Step) -> bool:
    """Return whether it is plain dropout with an entry of the mask for every entry of its input."""
    if not isinstance(step, Perturb) or not isinstance(step.perturbation, Dropout):
        return False
    dropout = step.perturbation
    return dropout.is_plain and dropout.layout.shape == step.x.shape
