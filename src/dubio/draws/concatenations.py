"""Networks that concatenate: what they compute from channels that all draws share is done once.

A convolution is a sum over its input channels. Where some of them are the same for all draws and
others differ, as behind the skip connection of a U-Net,

    convolution(cat(fixed, stacked)) = convolution(fixed) + convolution(stacked),

each with the weights of its channels. The first term is computed once. The same holds behind
functions that treat channels apart: BatchNorm in eval mode, elementwise functions, pooling,
resampling, padding, cropping, and further concatenations.

So the steps of a tape are gone through in order. A concatenation is noted as a `Concatenation` and
not carried out. Functions that treat channels apart are applied to the fixed and to the stacked
part; convolutions and linear layers add up what the parts give. For all others the parts are
concatenated first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, final

import torch

from dubio.draws.arguments import Arguments, Operand, Slot
from dubio.draws.channelwise import on_some_channels, summed_axes, without_bias
from dubio.draws.parts import Concatenate, Concatenation, Piece, is_fixed, merged
from dubio.draws.steps import Call, Step

aten = torch.ops.aten

NewSlot = Callable[[torch.Size, torch.dtype, bool], Slot]  # shape, type, whether it is fixed


def split_concatenations(
    steps: Sequence[Step], read: Iterable[Slot], new_slot: NewSlot
) -> list[Step]:
    """Return steps with the same results that keep the parts of concatenations apart.

    Args:
        steps: All steps, in order; none writes over a value that differs among draws.
        read: The slots that are read afterwards.
        new_slot: Makes a place for one more value.
    """
    if not any(_is_concatenation(step) for step in steps):
        return list(steps)
    read = list(read)
    reads = Counter([*read, *(slot for step in steps for slot in step.inputs)])
    splitter = _Splitter(reads, new_slot)
    for step in steps:
        splitter.take(step)
    for slot in read:
        splitter.join(slot)
    return splitter.steps


def _is_concatenation(step: Step) -> bool:
    return isinstance(step, Call) and step.function is aten.cat.default and not step.fixed


@final
class _Splitter:
    """Goes through the steps of a tape.

    Attributes:
        steps: Those that are to be played instead.
    """

    def __init__(self, reads: Counter[Slot], new_slot: NewSlot) -> None:
        self.steps: list[Step] = []
        self._reads = reads
        self._new_slot = new_slot
        self._parts: dict[Slot, Concatenation] = {}
        self._joined: set[Slot] = set()  # those that were put together nevertheless
        self._gathered: dict[Any, Slot] = {}

    def take(self, step: Step) -> None:
        """Go on by a step."""
        if isinstance(step, Call) and not step.fixed and self._kept_apart(step):
            return
        for slot in step.inputs:
            self.join(slot)
        self.steps.append(step)

    def join(self, slot: Slot) -> None:
        """Put the parts of a value together, if it has any."""
        if slot in self._parts and slot not in self._joined:
            self._joined.add(slot)
            self.steps.append(Concatenate(self._parts[slot], slot))

    def _kept_apart(self, call: Call) -> bool:
        """Carry a call out on parts, if it can be and if that saves work."""
        if call.function is aten.cat.default:
            return self._concatenate(call)
        split = [x for x in call.arguments.args if isinstance(x, Slot) and x in self._parts]
        if not split or any(self._reads[other] for other in call.outputs[1:]):
            return False
        parts = self._parts[split[0]]
        if call.function is aten.slice.Tensor and self._cut(call, parts):
            return True
        if not parts.any_fixed or not all(self._alike(split[0], x) for x in split):
            return False
        if any(not slot.fixed and slot not in split for slot in call.arguments.slots):
            return False
        return self._add_up(call, split[0], parts) or self._map(call, split[0], parts)

    def _alike(self, x: Slot, y: Slot) -> bool:
        """Return whether parts of two values lie in the same places."""
        a, b = self._parts[x], self._parts[y]
        return len(x.shape) == len(y.shape) and a.axis == b.axis and a.pattern == b.pattern

    def _concatenate(self, call: Call) -> bool:
        """Take note of a concatenation."""
        values, *rest = call.arguments.args
        out = call.outputs[0]
        dims = len(out.shape)
        axis = (rest[0] if rest else 0) % dims
        if any(len(x.shape) != dims or x.dtype != out.dtype or not x.shape[axis] for x in values):
            return False
        pieces: list[Piece] = []
        for x in values:
            known = self._parts.get(x) if isinstance(x, Slot) else None
            if known is not None and known.axis == axis:
                pieces += known.pieces
                continue
            if known is not None:
                self.join(x)
            pieces.append(Piece(x, 0, x.shape[axis]))
        self._parts[out] = Concatenation(axis, pieces)
        return True

    def _cut(self, call: Call, parts: Concatenation) -> bool:
        """Take note of a section along the axis of the parts."""
        x, *rest = call.arguments.args
        defaults: list[Any] = [0, None, None, 1]
        axis, start, stop, step = rest + defaults[len(rest) :]
        section = range(x.shape[parts.axis])[start:stop]
        if axis % len(x.shape) != parts.axis or step != 1 or not section:
            return False
        self._parts[call.outputs[0]] = parts.between(section.start, section.stop)
        return True

    def _add_up(self, call: Call, x: Slot, parts: Concatenation) -> bool:
        """Add up what the parts give."""
        axes = summed_axes(call)
        if axes is None or axes[0] != parts.axis:
            return False
        first, weight = call.arguments.args[:2]
        if first is not x or not is_fixed(weight):
            return False
        out = call.outputs[0]

        def term(fixed: bool, args: list[Any], kwargs: dict[str, Any]) -> Slot:
            args[0] = self._share(parts, fixed, x, axes[0])
            args[1] = self._share(parts, fixed, weight, axes[1])
            result = self._new_slot(out.shape, out.dtype, fixed)
            self.steps.append(Call(call.function, Arguments(args, kwargs), [result]))
            return result

        once = term(True, call.arguments.args.copy(), call.arguments.kwargs)
        if len(parts.kinds) == 1:
            self._parts[out] = Concatenation(parts.axis, [Piece(once, 0, out.shape[parts.axis])])
            return True
        varying = term(False, without_bias(call), {})
        both = Arguments([varying, once], {})
        self.steps.append(Call(aten.add.Tensor, both, [out], aten.add_.Tensor))
        return True

    def _map(self, call: Call, x: Slot, parts: Concatenation) -> bool:
        """Do the same to all parts."""
        on_some = on_some_channels(call, x, parts.axis)
        if on_some is None:
            return False
        results: dict[bool, Operand] = {}
        for fixed in parts.kinds:
            length = parts.length(fixed)
            function, args = on_some(partial(self._share, parts, fixed), length)
            outputs = [
                self._new_slot(_with_length(slot.shape, parts.axis, length), slot.dtype, fixed)
                for slot in call.outputs
            ]
            arguments = Arguments(args, call.arguments.kwargs)
            self.steps.append(Call(function, arguments, outputs, call.in_place))
            results[fixed] = outputs[0]
        self._parts[call.outputs[0]] = parts.replaced(results)
        return True

    def _share(self, parts: Concatenation, fixed: bool, value: Operand, axis: int) -> Operand:
        """Return the entries of a value where the parts of a kind lie, as one value."""
        if isinstance(value, Slot) and value in self._parts:
            pieces = self._parts[value].of_kind(fixed)
        else:
            pieces = parts.of_another(value, fixed)
        return self._gather(axis, merged(pieces))

    def _gather(self, axis: int, pieces: list[Piece]) -> Operand:
        """Pieces of a kind, put together."""
        first = pieces[0]
        if len(pieces) == 1 and first.length == first.value.shape[axis]:
            return first.value
        key = axis, *((id(piece.value), piece.start, piece.length) for piece in pieces)
        if key not in self._gathered:
            shape = _with_length(first.value.shape, axis, sum(piece.length for piece in pieces))
            gathered = self._new_slot(shape, first.value.dtype, first.fixed)
            self.steps.append(Concatenate(Concatenation(axis, pieces), gathered))
            self._gathered[key] = gathered
        return self._gathered[key]


def _with_length(shape: torch.Size, axis: int, length: int) -> torch.Size:
    """Return a shape with another length of an axis, if it has that axis."""
    if len(shape) <= axis:
        return shape
    return torch.Size([*shape[:axis], length, *shape[axis + 1 :]])
