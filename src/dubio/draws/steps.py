"""The steps of a tape."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, final

import torch
from torch import Tensor

from dubio.draws.arguments import Arguments, Slot
from dubio.draws.batching import BatchedCall
from dubio.noise.protocols import Perturbation, RandomNumbers

Play = Callable[[list[Any], RandomNumbers], None]  # writes its results among the values


class Step(Protocol):
    """One line of the tape."""

    @property
    def inputs(self) -> Sequence[Slot]:
        """The slots it reads."""
        ...

    @property
    def outputs(self) -> Sequence[Slot]:
        """The slots it fills."""
        ...

    @property
    def signature(self) -> Hashable:
        """What it does, apart from the numbers in its constants."""
        ...

    def play(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Compute its results for all draws."""
        ...

    def compiled(self) -> Play:
        """Return the same without any choice, for a step that was played before."""
        ...


@final
class Perturb:
    """Noise enters."""

    def __init__(self, perturbation: Perturbation, x: Slot | Tensor, output: Slot) -> None:
        self.perturbation = perturbation
        self.x = x
        self.inputs = [x] if isinstance(x, Slot) else []
        self.outputs = [output]

    @property
    def signature(self) -> Hashable:
        """The kind of perturbation and the shape of what it perturbs."""
        return type(self.perturbation), self.perturbation.layout.shape, self.x.shape

    def play(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Return the perturbed tensor of all draws."""
        x = values[self.x.number] if isinstance(self.x, Slot) else self.x
        values[self.outputs[0].number] = self.perturbation(numbers, x)

    def compiled(self) -> Play:
        """Return the same."""
        perturbation, out = self.perturbation, self.outputs[0].number
        if not isinstance(self.x, Slot):
            return self.play
        read = self.x.number

        def run(values: list[Any], numbers: RandomNumbers) -> None:
            values[out] = perturbation(numbers, values[read])

        return run


@final
class Call:
    """An operation on values that depend on noise, or on the inputs alone.

    Attributes:
        in_place: The same, written over its first operand, if the network did so.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Arguments,
        outputs: Sequence[Slot],
        in_place: Callable[..., Any] | None = None,
    ) -> None:
        self.function = function
        self.in_place = in_place
        self.arguments = arguments
        self.inputs = arguments.slots
        self.outputs = outputs
        self.fixed = all(slot.fixed for slot in arguments.slots)
        self._operation: BatchedCall | None = None

    @property
    def operation(self) -> BatchedCall:
        """The operation for many draws at once."""
        if self._operation is None:
            shapes = [slot.shape for slot in self.outputs]
            self._operation = BatchedCall(self.function, self.arguments, shapes)
        return self._operation

    @property
    def mutates(self) -> bool:
        """Whether it writes into one of its operands."""
        schema = getattr(self.function, "_schema", None)
        return schema is not None and bool(schema.is_mutable)

    @property
    def signature(self) -> Hashable:
        """The function, its plain arguments and the shapes of its results."""
        return self.function, self.arguments.signature, *(slot.shape for slot in self.outputs)

    def play(self, values: list[Any], numbers: RandomNumbers) -> None:
        """Its results for all draws; or, if nothing differs among them, for all at once."""
        if self.fixed:
            args, kwargs = self.arguments.filled(values)
            results = self.function(*args, **kwargs)
        else:
            results = self.operation(values)
        if isinstance(results, Tensor):
            values[self.outputs[0].number] = results
            return
        tensors = (result for result in results if isinstance(result, Tensor))
        for slot, result in zip(self.outputs, tensors, strict=True):
            values[slot.number] = result

    def compiled(self) -> Play:
        """Return a direct call of the function where that is all there is to it."""
        direct = self.fixed or self.operation.direct
        if not direct or len(self.outputs) > 1 or not _returns_tensor(self.function):
            return self.play
        function = _NATIVE.get(self.function, self.function)
        fill, out = self.arguments.filled, self.outputs[0].number
        leading, rest = self.arguments.leading
        if len(leading) == 1:
            read = leading[0]

            def run_on_one(values: list[Any], numbers: RandomNumbers) -> None:
                values[out] = function(values[read], *rest)

            return run_on_one
        if len(leading) == 2:
            left, right = leading

            def run_on_two(values: list[Any], numbers: RandomNumbers) -> None:
                values[out] = function(values[left], values[right], *rest)

            return run_on_two

        def run(values: list[Any], numbers: RandomNumbers) -> None:
            args, kwargs = fill(values)
            values[out] = function(*args, **kwargs)

        return run


def _returns_tensor(function: Callable[..., Any]) -> bool:
    """Return whether the result of an operation is a tensor by itself, not in a list."""
    schema = getattr(function, "_schema", None)
    return schema is None or isinstance(schema.returns[0].type, torch.TensorType)


# torch's own binding of an operation is faster than calling it by its name.
_NATIVE: dict[Callable[..., Any], Callable[..., Any]] = {
    getattr(getattr(torch.ops.aten, name), overload): getattr(torch, name, None)
    or getattr(Tensor, name)
    for overload, names in {
        "default": "relu relu_ tanh sigmoid exp log sqrt neg reciprocal clamp mm bmm addmm addcmul "
        "t cat unsqueeze view expand",
        "Tensor": "add sub mul div lt",
        "Scalar": "add mul div",
        "Tensor_Scalar": "pow",
        "int": "transpose select",
        "dim": "mean squeeze",
        "dim_IntList": "sum",
        "self": "where",
    }.items()
    for name in names.split()
}
