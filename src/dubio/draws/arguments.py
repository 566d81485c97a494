"""Slots: places for values on a tape; and arguments of a call in which some are left open."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

Values = Sequence[Any] | Mapping[int, Any]  # by the number of their slot


@final
class Slot:
    """A place on a tape for a value.

    Attributes:
        number: Where it is among all values.
        fixed: Whether the value is the same for all draws.
        shape: Its shape for one draw.
        dtype: Its type.
        bytes: Its size for one draw.
    """

    __slots__ = ("bytes", "dtype", "fixed", "number", "shape")

    def __init__(self, number: int, value: Tensor, *, fixed: bool) -> None:
        self.number = number
        self.fixed = fixed
        self.shape = value.shape
        self.dtype = value.dtype
        self.bytes = value.numel() * value.element_size()


Operand: TypeAlias = Slot | Tensor


@final
class Arguments:
    """Positional and named arguments, some of which are slots, by themselves or in a list.

    Attributes:
        args: The positional arguments, with slots in the places of values.
        kwargs: The named ones, likewise.
        slots: All slots among them.
        stacked: Positions of those that differ among draws and stand by themselves.
        deep: Whether others that differ among draws are named, or in lists.
    """

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.args = list(args)
        self.kwargs = dict(kwargs)
        self._flat = [(i, arg.number) for i, arg in enumerate(self.args) if type(arg) is Slot]
        self._lists = [i for i, arg in enumerate(self.args) if _holds_slots(arg)]
        self._named = [name for name, arg in self.kwargs.items() if next(_slots(arg), None)]
        self.slots = [slot for arg in (*self.args, *self.kwargs.values()) for slot in _slots(arg)]
        self.stacked = [i for i, arg in enumerate(self.args) if type(arg) is Slot and not arg.fixed]
        self.deep = sum(not slot.fixed for slot in self.slots) > len(self.stacked)

    def filled(self, values: Values) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments with values in place of slots."""
        args = self.args.copy()
        for position, number in self._flat:
            args[position] = values[number]
        for position in self._lists:
            args[position] = _filled(args[position], values)
        if not self._named:
            return args, self.kwargs
        return args, {name: _filled(arg, values) for name, arg in self.kwargs.items()}

    @property
    def leading(self) -> tuple[list[int], list[Any]]:
        """Numbers of the slots if they come first, and the rest; none if they are elsewhere too."""
        numbers = [number for _, number in self._flat]
        first = [position for position, _ in self._flat] == list(range(len(numbers)))
        alone = first and not self._lists and not self.kwargs
        return (numbers, self.args[len(numbers) :]) if alone else ([], [])

    @property
    def tensors(self) -> int:
        """How many tensors there are, open or not."""
        everything = (*self.args, *self.kwargs.values())
        return sum(1 for arg in everything for _ in _tensors_and_slots(arg))

    @property
    def signature(self) -> Hashable:
        """All that is no tensor, and the slots by number."""
        return (*map(_signature, self.args), *map(_signature, self.kwargs.items()))


def _slots(arg: Any) -> Iterator[Slot]:
    if type(arg) is Slot:
        yield arg
    elif type(arg) in (list, tuple):
        for part in arg:
            if type(part) is Slot:
                yield part


def _holds_slots(arg: Any) -> bool:
    return type(arg) in (list, tuple) and any(type(part) is Slot for part in arg)


def _tensors_and_slots(arg: Any) -> Iterator[Any]:
    for part in arg if type(arg) in (list, tuple) else (arg,):
        if isinstance(part, Slot | Tensor):
            yield part


def _filled(arg: Any, values: Values) -> Any:
    if type(arg) is Slot:
        return values[arg.number]
    if type(arg) in (list, tuple):
        return [values[part.number] if type(part) is Slot else part for part in arg]
    return arg


def _signature(arg: Any) -> Hashable:
    if type(arg) is Slot:
        return "slot", arg.number, arg.fixed
    if isinstance(arg, Tensor):
        return arg.shape
    if isinstance(arg, (list, tuple)) and not isinstance(arg, torch.Size):
        return tuple(map(_signature, arg))
    return type(arg), arg if isinstance(arg, Hashable) else repr(arg)
