"""The tape: what a network does after its first perturbation, to be played for many draws at once.

A tape is a straight line of steps. Each reads slots (values that differ among draws) and constants
(parameters, and the outputs of the deterministic trunk) and fills new slots. Playing it with the
numbers of S draws fills every slot with the values of all S draws.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._pytree import TreeSpec

from dubio.draws.batching import Operation
from dubio.draws.masked_layers import fuse_masked_layers
from dubio.draws.steps import Call, Perturb, Slot, Step
from dubio.noise.numbers import Numbers
from dubio.noise.perturbations import Perturbation


class Tape:
    """The recorded part of a network.

    Attributes:
        obstacle: Why the tape must not be played, if there is a reason.
    """

    def __init__(self) -> None:
        self.obstacle: str | None = None
        self._steps: list[Step] = []
        self._bytes: list[int] = []  # of one draw, by slot
        self._constants: list[tuple[Tensor, int]] = []
        self._output: Slot

    def perturb(self, perturbation: Perturbation, x: Slot | Tensor, result: Tensor) -> Slot:
        """Add a perturbation and get the slot for its result."""
        return self._append(Perturb(perturbation, x), [result])[0]

    def call(
        self,
        function: Callable[..., Any],
        operands: list[Any],
        spec: TreeSpec,
        results: list[Tensor],
    ) -> list[Slot]:
        """Add an operation on flattened arguments and get the slots for its results."""
        stacked = [i for i, operand in enumerate(operands) if isinstance(operand, Slot)]
        shapes = [result.shape for result in results]
        operation = Operation(function, operands, spec, stacked, shapes)
        return self._append(Call(operation, operands), results)

    def _append(self, action: Perturb | Call, results: list[Tensor]) -> list[Slot]:
        slots = [Slot(len(self._bytes) + i) for i in range(len(results))]
        self._bytes += [result.numel() * result.element_size() for result in results]
        self._steps.append(Step(action, slots))
        self._constants += [
            (operand, operand._version)
            for operand in action.operands
            if isinstance(operand, Tensor) and not operand.is_inference()
        ]
        return slots

    def finish(self, output: Slot, *, shared: bool) -> None:
        """Drop the steps that the output does not need, and check that constants stayed so."""
        if any(constant._version != version for constant, version in self._constants):
            self.obstacle = "a tensor of the deterministic part is overwritten after it was used"
        needed = {output}
        kept: list[Step] = []
        for step in reversed(self._steps):
            mutates = isinstance(step.action, Call) and step.action.mutates
            if mutates or not needed.isdisjoint(step.outputs):
                kept.append(step)
                needed.update(step.inputs)
        self._output = output
        self._steps = fuse_masked_layers(kept[::-1]) if shared else kept[::-1]
        unread: set[Slot] = {output}
        for step in reversed(self._steps):
            involved = dict.fromkeys([*step.outputs, *step.inputs])
            step.spent = [slot for slot in involved if slot not in unread]
            unread.update(involved)

    @property
    def bytes_per_draw(self) -> int:
        """The most memory that the values of one draw take at any step."""
        live: set[Slot] = set()
        most = 0
        for step in self._steps:
            live.update(step.outputs)
            working = sum(self._bytes[slot.number] for slot in step.outputs)
            most = max(most, working + sum(self._bytes[slot.number] for slot in live))
            live.difference_update(step.spent)
        return most

    @property
    def signature(self) -> int:
        """The same for networks of the same structure on batches of the same shape."""
        return hash(tuple((step.action.signature, *step.inputs) for step in self._steps))

    def play(self, numbers: Numbers) -> Tensor:  # (S, B, …)
        """The output for every draw."""
        values: dict[Slot, Tensor] = {}
        for step in self._steps:
            results = step.action.run(numbers, [values[slot] for slot in step.inputs])
            values.update(zip(step.outputs, results, strict=True))
            for slot in step.spent:
                del values[slot]
        return values[self._output]
