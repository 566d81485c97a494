"""The tape: what a network does, as a line of steps, to be played for many draws at once.

Slots hold values: *fixed* ones are the same for all draws, *stacked* ones differ among them and
have the draws as their first axis. The steps whose operands are all fixed are the trunk: they run
once, by `start`; then `play` runs the others with the numbers of some draws, chunk by chunk.

A tape begins at the first perturbation, and what it reads of the trunk are constants; or it begins
at the inputs, and can be played for other inputs of the same shapes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from dubio.draws.activated import fuse_activations
from dubio.draws.arguments import Arguments, Slot
from dubio.draws.concatenations import split_concatenations
from dubio.draws.masked_runs import fuse_masked_layers
from dubio.draws.reuse import overwrite_what_is_spent
from dubio.draws.steps import Call, Perturb, Play, Step
from dubio.noise.numbers import Numbers
from dubio.noise.protocols import Perturbation, RandomNumbers


@final
class Tape:
    """The recorded part of a network.

    Attributes:
        obstacle: Why the tape must not be played, if there is a reason.
        doubt: Why it must not be played for other inputs, if there is a reason.
        reads: Tensors that Python looked at, and what it saw: parameters, or computed from them.
    """

    def __init__(self) -> None:
        self.obstacle: str | None = None
        self.doubt: str | None = None
        self.reads: list[tuple[Slot | Tensor, Tensor]] = []
        self._steps: list[Step] = []
        self._trunk = Line([], set())
        self._shares = Line([], set())  # what draws share of their concatenations
        self._draws = Line([], set())
        self._slots = 0
        self._constants: list[tuple[Tensor, int]] = []
        self._inputs: list[Slot] = []
        self._outputs: tuple[Slot, ...] = ()

    def slot(self, value: Tensor, *, fixed: bool) -> Slot:
        """Return a place for one more value."""
        self._slots += 1
        return Slot(self._slots - 1, value, fixed=fixed)

    def _further_slot(self, shape: torch.Size, dtype: torch.dtype, fixed: bool) -> Slot:
        return self.slot(torch.empty(shape, dtype=dtype, device="meta"), fixed=fixed)

    def input(self, value: Tensor) -> Slot:
        """Return the slot of an input."""
        self._inputs.append(self.slot(value, fixed=True))
        return self._inputs[-1]

    def perturb(self, perturbation: Perturbation, x: Slot | Tensor, result: Tensor) -> Slot:
        """Add a perturbation and get the slot for its result."""
        out = self.slot(result, fixed=False)
        self._steps.append(Perturb(perturbation, x, out))
        return out

    def call(
        self,
        function: Callable[..., Any],
        arguments: Arguments,
        results: Sequence[Tensor],
        in_place: Callable[..., Any] | None = None,
    ) -> list[Slot]:
        """Add an operation and get the slots for its results."""
        fixed = all(slot.fixed for slot in arguments.slots)
        outputs = [self.slot(result, fixed=fixed) for result in results]
        self._steps.append(Call(function, arguments, outputs, in_place))
        return outputs

    def hold(self, constant: Tensor) -> None:
        """Take note of a tensor that must stay as it is until the recording ends."""
        if not constant.is_inference():
            self._constants.append((constant, constant._version))

    def finish(self, *outputs: Slot) -> None:
        """Drop the steps that no output needs, and check that constants stayed so."""
        if any(constant._version != version for constant, version in self._constants):
            self.obstacle = "a tensor of the deterministic part is overwritten after it was used"
        self._constants.clear()
        seen = {x for x, _ in self.reads if isinstance(x, Slot)}
        needed_after = {*outputs, *seen}
        needed = set(needed_after)
        kept: list[Step] = []
        for step in reversed(self._steps):
            mutates = isinstance(step, Call) and step.mutates  # of the trunk
            if mutates or not needed.isdisjoint(step.outputs):
                kept.append(step)
                needed.update(step.inputs)
        self._outputs = outputs
        recorded = self._slots
        steps = split_concatenations(kept[::-1], needed_after, self._further_slot)
        self._steps = overwrite_what_is_spent(steps, needed_after)
        self._steps = fuse_masked_layers(self._steps, outputs)
        self._steps = fuse_activations(self._steps, [*needed_after])
        trunk: list[Step] = []
        shares: list[Step] = []
        draws: list[Step] = []
        for step in self._steps:
            first = step.outputs[0]
            line = draws if not first.fixed else trunk if first.number < recorded else shares
            line.append(step)
        read = seen.union(outputs, (s for step in draws for s in step.inputs if s.fixed))
        self._trunk = Line(trunk, read.union(s for step in shares for s in step.inputs))
        self._shares = Line(shares, read)
        self._draws = Line(draws, read)

    @property
    def bytes_per_draw(self) -> int:
        """The most memory that the values of one draw take at any step."""
        return self._draws.bytes

    @property
    def signature(self) -> int:
        """The same for networks of the same structure on batches of the same shape."""
        return hash(
            tuple((step.signature, *(s.number for s in step.inputs)) for step in self._steps)
        )

    def start(self, inputs: Sequence[Tensor] = ()) -> list[Any]:
        """Return all values that are the same for all draws, by slot."""
        values: list[Any] = [None] * self._slots
        for slot, value in zip(self._inputs, inputs, strict=True):
            values[slot.number] = value
        self._trunk.run(values, _NO_NUMBERS)
        self._shares.run(values, _NO_NUMBERS)
        return values

    def sees_the_same(self, fixed: list[Any]) -> bool:
        """Return whether Python would see now what it saw when the pass was recorded."""
        return all(
            torch.equal(fixed[x.number] if isinstance(x, Slot) else x, seen)
            for x, seen in self.reads
        )

    def resume(self, known: Mapping[int, Tensor]) -> list[Any]:
        """Return what `start` would give, from the values of the recorded pass."""
        values: list[Any] = [known.get(number) for number in range(self._slots)]
        self._shares.run(values, _NO_NUMBERS)
        return values

    def play(self, fixed: list[Any], numbers: RandomNumbers) -> Tensor:  # (S, B, …)
        """Return the output for every draw, from what `start` gave."""
        values = fixed.copy()
        self._draws.run(values, numbers)
        output: Tensor = values[self._outputs[0].number]
        return output

    def outcome(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return all outputs, of a tape without noise."""
        values = self.start(inputs)
        return [values[slot.number] for slot in self._outputs]


@final
class Line:
    """Steps that run one after the other; what nobody reads any more is let go.

    Args:
        steps: The steps.
        read: The slots that are read afterwards.
    """

    def __init__(self, steps: list[Step], read: set[Slot]) -> None:
        self._steps = steps
        self._spent: list[list[int]] = []
        later = set(read)
        for step in reversed(steps):
            involved = dict.fromkeys([*step.outputs, *step.inputs])
            self._spent.append([slot.number for slot in involved if slot not in later])
            later.update(involved)
        self._spent.reverse()
        self._plays: list[Play] = [step.play for step in steps]
        self._found = all(slot.fixed for step in steps for slot in step.outputs)
        self._compiled = False

    @property
    def bytes(self) -> int:
        """The most memory that values take at any step."""
        live: dict[int, int] = {}
        most = 0
        for step, spent in zip(self._steps, self._spent, strict=True):
            results = {slot.number: slot.bytes for slot in step.outputs}
            live |= results
            most = max(most, sum(results.values()) + sum(live.values()))
            for number in spent:
                live.pop(number, None)
        return most

    def run(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Carry the steps out; the first time, each finds its way."""
        if self._found and not self._compiled:
            self._plays = [step.compiled() for step in self._steps]
            self._compiled = True
        for play, spent in zip(self._plays, self._spent, strict=True):
            play(values, numbers)
            for number in spent:
                values[number] = None
        self._found = True


_NO_NUMBERS = Numbers(0, range(0), shared=False)
