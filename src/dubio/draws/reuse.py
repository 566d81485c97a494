"""Memory that is used again: a write in place stays one where nobody can see the old value.

On the tape writes are functions that return new values. That is always right, but new memory takes
time. A function may write over its first operand after all, as it did in the network, if that was
computed by another step into memory of its own, and this is the only step that reads it. ReLUs may
even if they did not.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from dubio.draws.arguments import Slot
from dubio.draws.parts import Concatenate
from dubio.draws.steps import Call, Perturb, Step

aten = torch.ops.aten
_ALWAYS: dict[Any, Any] = {
    aten.relu.default: aten.relu_.default,
    aten.hardtanh.default: aten.hardtanh_.default,
}


def overwrite_what_is_spent(steps: Iterable[Step], read: Iterable[Slot]) -> list[Step]:
    """Return the same steps, some of which write in place.

    Args:
        steps: All steps, in order.
        read: The slots that are read afterwards.
    """
    steps = list(steps)
    reads = Counter([*read, *(slot for step in steps for slot in step.inputs)])
    makers = {slot: step for step in steps for slot in step.outputs[:1]}

    def reused(step: Step) -> Step:
        if not isinstance(step, Call):
            return step
        in_place = step.in_place or _ALWAYS.get(step.function)
        if in_place is None:
            return step
        target = step.arguments.args[0]
        if not isinstance(target, Slot) or target.fixed or reads[target] > 1:
            return step
        if target not in makers or not _makes_new_memory(makers[target]):
            return step
        return Call(in_place, step.arguments, step.outputs)

    return [reused(step) for step in steps]


def _makes_new_memory(step: Step) -> bool:
    """Return whether the first result of a step shares nothing with any other value."""
    if isinstance(step, Perturb | Concatenate):
        return True
    function: Any = step.function if isinstance(step, Call) else None
    if not isinstance(function, torch._ops.OpOverload):
        return function is torch.nn.functional.linear
    shares = any(result.alias_info is not None for result in function._schema.returns)
    return not shares and function is not aten._unsafe_view.default
