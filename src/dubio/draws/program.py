"""A function of tensors as a tape: recorded once, played for other tensors of the same layout.

There is no noise here but what is handed in, so the tape is all trunk. Tensors that the function
finds elsewhere are constants, and so is what it computes from them alone. Gradients that it takes
are operations like others.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dubio.draws.arguments import Arguments, Slot
from dubio.draws.tape import Tape
from dubio.draws.traced import Recorder
from dubio.draws.traits import traits_of, written
from dubio.draws.trunk import Trunk

Program: TypeAlias = Callable[[Sequence[Tensor]], list[Tensor]]

_ATEN = torch.ops.aten
_BY_SHAPE = frozenset({_ATEN.ones_like.default, _ATEN.zeros_like.default, _ATEN.full_like.default})
_COPIES: dict[Any, list[Any]] = {
    _ATEN.clone.default: [],
    _ATEN.mul.Scalar: [1],
    _ATEN.pow.Tensor_Scalar: [1],
}


def record(
    function: Callable[[Sequence[Tensor]], Sequence[Tensor]], inputs: Sequence[Tensor]
) -> Program | None:
    """Return what a function does to tensors, without the Python around it.

    Args:
        function: Whose course must not depend on values of its inputs.
        inputs: Some inputs; others must have the same shapes, strides and types.

    Returns:
        The function, to be called without gradients; None if it cannot be recorded: where it
        writes over tensors that it has not made, draws random numbers or looks at values.
    """
    return _recorded(function, inputs, merging=True) or _recorded(function, inputs, merging=False)


def _recorded(
    function: Callable[[Sequence[Tensor]], Sequence[Tensor]],
    inputs: Sequence[Tensor],
    *,
    merging: bool,
) -> Program | None:
    tape = Tape()
    course = _Course(tape, inputs, merging=merging)
    try:
        with Recorder(tape, course) as recorder, _Calls(recorder):
            outputs = function(inputs)
        tape.finish(*map(course.output, outputs))
    except Exception:  # of an operation that cannot be recorded
        return None
    return tape.outcome if tape.doubt is None and tape.obstacle is None else None


@final
class _Calls(TorchFunctionMode):
    """Shows the recorder what torch is called with: numbers that become tensors, above all."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return self._recorder.call(func, args, kwargs or {})


@final
class _Course(Trunk):
    """Records what depends on the inputs; everything else is a constant.

    Args:
        tape: Where it is recorded.
        inputs: The inputs.
        merging: Whether copies are left out, which then must not be written over.
    """

    def __init__(self, tape: Tape, inputs: Sequence[Tensor], *, merging: bool) -> None:
        super().__init__(tape, inputs, owned=())
        self._copies = _COPIES if merging else {}
        self._merged: set[int] = set()  # memory of such copies, and of what they are copies of
        self._found = set(map(_memory, inputs))  # memory that was there before
        self._made: dict[int, Tensor] = {}  # what was computed, by its memory
        self._met: list[Tensor] = []  # constants in the operation at hand

    def output(self, x: Tensor) -> Slot:
        """Return the slot of an output, which can be a constant."""
        if isinstance(constant := self.operand(x), Tensor):
            self._put(torch.clone, Arguments([constant], {}), [x])
        return self._known[id(x)][1]

    def _meet(self, x: Tensor) -> None:
        """Note that a constant is used."""
        self._met.append(x)
        if _memory(x) not in self._made:
            self._found.add(_memory(x))

    def record(
        self, function: Callable[..., Any], arguments: Arguments, results: Sequence[Tensor]
    ) -> None:
        """Put an operation on the tape that was carried out, if it has to be played."""
        self._made |= {_memory(x): x for x in results if _memory(x) not in self._found}
        met, self._met = self._met, []
        traits = traits_of(function)
        if traits.random:
            self._tape.doubt = "random numbers are drawn"
        if not arguments.slots or function in _BY_SHAPE:
            return
        for constant in met:
            self._tape.hold(constant)
        if any(isinstance(x, Tensor) for x in written(traits, arguments.args, arguments.kwargs)):
            self._tape.doubt = "what depends on the inputs is written over a constant"
        if not traits.written and len(results) == 1 and self._same(function, arguments, results[0]):
            self._known[id(results[0])] = (results[0], arguments.slots[0])
        else:
            self._put(function, arguments, results)

    def _same(self, function: Callable[..., Any], arguments: Arguments, result: Tensor) -> bool:
        """Return whether a result is the first argument: a view of all of it, or a copy."""
        first, *others = arguments.args or [None]
        if not isinstance(first, Slot):
            return False
        x = self.values[first.number]
        if (x.shape, x.stride(), x.dtype) != (result.shape, result.stride(), result.dtype):
            return False
        if self._copies.get(function) != others:
            return x.data_ptr() == result.data_ptr()
        self._merged |= {_memory(x), _memory(result)}
        return True

    def made(self, x: Tensor, result: Tensor, *, seen: bool) -> None:
        """Note that a tensor was made from Python numbers: a constant."""
        if not seen:
            self._tape.doubt = "a tensor is made of numbers that cannot be looked at"
        self._made[_memory(result)] = result

    def look(self, x: Any) -> None:
        """Python sees the values of a tensor."""
        if isinstance(self.operand(x), Slot):
            self._tape.doubt = "Python reads a value that depends on the inputs"

    def write(self, written: Iterable[Any]) -> None:
        """Tensors are written over, which must have been computed here, and be no copies."""
        for tensor in written:
            if not isinstance(tensor, Tensor) or _memory(tensor) not in self._made:
                self._tape.doubt = "tensors are written over that were there before"
            elif _memory(tensor) in self._merged:
                self._tape.doubt = "a copy is written over"


def _memory(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()
