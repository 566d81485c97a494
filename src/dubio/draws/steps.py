"""The steps of a tape."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from dubio.draws.batching import Operation
from dubio.noise.numbers import Numbers
from dubio.noise.perturbations import Perturbation


class Slot(NamedTuple):
    """A place on the tape for a value that differs among draws."""

    number: int


class Action(Protocol):
    """What a step does."""

    @property
    def operands(self) -> list[Any]:
        """What it reads: slots, constant tensors and other arguments."""
        ...

    @property
    def signature(self) -> Hashable:
        """What it does, apart from the numbers in its constants."""
        ...

    def run(self, numbers: Numbers, values: list[Tensor]) -> list[Tensor]:
        """Compute its results for all draws from the values of its slots, in order."""
        ...


@dataclass(frozen=True)
class Perturb:
    """Noise enters."""

    perturbation: Perturbation
    x: Slot | Tensor

    @property
    def operands(self) -> list[Any]:
        """The tensor that is perturbed."""
        return [self.x]

    @property
    def signature(self) -> Hashable:
        """The kind of perturbation and the shape of what it perturbs."""
        shape = self.x.shape if isinstance(self.x, Tensor) else None
        return type(self.perturbation), self.perturbation.layout.shape, shape

    def run(self, numbers: Numbers, values: list[Tensor]) -> list[Tensor]:
        """The perturbed tensor of all draws."""
        x = values[0] if isinstance(self.x, Slot) else self.x
        return [self.perturbation(numbers, x)]


@dataclass(frozen=True)
class Call:
    """An operation on values that depend on noise."""

    operation: Operation
    operands: list[Any]

    @property
    def mutates(self) -> bool:
        """Whether it writes into one of its operands."""
        schema = getattr(self.operation.function, "_schema", None)
        return schema is not None and bool(schema.is_mutable)

    @property
    def signature(self) -> Hashable:
        """The function, its plain arguments and the shapes of its results."""
        return self.operation.signature

    def run(self, numbers: Numbers, values: list[Tensor]) -> list[Tensor]:
        """Its results for all draws."""
        return self.operation(values)


@dataclass
class Step:
    """One line of the tape: what is done, the slots it fills, and those not read after it."""

    action: Action
    outputs: list[Slot]
    spent: list[Slot] = field(default_factory=list)

    @property
    def inputs(self) -> list[Slot]:
        """The slots it reads."""
        return [operand for operand in self.action.operands if isinstance(operand, Slot)]
