"""The trunk of a network on the tape: what does not depend on the noise, from the inputs on.

All operations of a pass on plain tensors are recorded, so that the tape computes everything anew
from the inputs and from the tensors that the network owns, which it refers to as they are: a weight
that is changed in place is seen. What cannot be computed anew is a doubt: the tape is good for this
call, and not for other inputs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dubio.draws.arguments import Arguments, Slot
from dubio.draws.tape import Tape

# Functions by which Python gets at values without any operation.
LOOKS = frozenset(
    {"tolist", "numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage"}
    | {"_typed_storage", "const_data_ptr", "apply_", "map_", "map2_", "set_", "__repr__"}
    | {"__format__", "__reduce_ex__", "__reduce__", "__deepcopy__", "__contains__"}
)
# Those after which Python may write into the memory of a tensor.
MEMORY = LOOKS - {"tolist", "__repr__", "__format__", "__contains__", "__deepcopy__"}
# Functions that make a tensor of Python numbers, and read those of tensors among them.
MAKERS = frozenset({"tensor", "as_tensor", "asarray", "new_tensor", "new"})
_FEW = 1024  # numbers that are kept of a tensor that Python looks at


class Trunk:
    """Records what is done to plain tensors.

    Args:
        tape: Where it is recorded.
        inputs: The inputs, in the order in which the tape will get others.
        owned: Tensors that are there before the pass, and may change in place.

    Attributes:
        values: What was computed in this pass, by slot.
    """

    def __init__(self, tape: Tape, inputs: Iterable[Tensor], owned: Iterable[Tensor]) -> None:
        self._tape = tape
        self._owned = {id(tensor): tensor for tensor in owned}
        self.values: dict[int, Tensor] = {}
        self._from_inputs: set[int] = set()
        self._known: dict[int, tuple[Tensor, Slot]] = {}  # by id, which holds while they are kept
        for x in inputs:
            slot = tape.input(x)
            self._known[id(x)] = (x, slot)
            self.values[slot.number] = x
            self._from_inputs.add(slot.number)

    def owns(self, x: Tensor) -> bool:
        """Return whether a tensor was there before the pass, where changes are looked for."""
        return id(x) in self._owned

    def operand(self, x: Tensor) -> Slot | Tensor:
        """Return how the tape refers to a tensor: by its slot, or as it is."""
        known = self._known.get(id(x))
        if known is not None:
            return known[1]
        self._meet(x)
        return x

    def _meet(self, x: Tensor) -> None:
        """Note that a tensor is used that is neither an input nor computed."""
        if id(x) not in self._owned:
            self._tape.doubt = "the network uses a tensor that is neither its own nor computed"

    def record(
        self, function: Callable[..., Any], arguments: Arguments, results: Sequence[Tensor]
    ) -> None:
        """Put an operation on the tape that was carried out."""
        if torch.is_grad_enabled():
            self._tape.doubt = "the network takes gradients itself"
        self._put(function, arguments, results)

    def _put(
        self, function: Callable[..., Any], arguments: Arguments, results: Sequence[Tensor]
    ) -> None:
        depends = any(slot.number in self._from_inputs for slot in arguments.slots)
        for result, slot in zip(
            results, self._tape.call(function, arguments, results), strict=True
        ):
            self._known[id(result)] = (result, slot)
            self.values[slot.number] = result
            if depends:
                self._from_inputs.add(slot.number)

    def made(self, x: Tensor, result: Tensor, *, seen: bool) -> None:
        """Note that a tensor was made from Python numbers; it is copied."""
        if not seen:  # by torch.Tensor(...) and its like, which read tensors in C
            self._tape.doubt = "a tensor is made of numbers that cannot be looked at"
        self.record(torch.clone, Arguments([x], {}), [result])

    def look(self, x: Any) -> None:
        """Python sees the values of a tensor, and may do other things if they are others."""
        _, slot = self._known.get(id(x), (x, None))
        own = id(x) in self._owned if slot is None else slot.number not in self._from_inputs
        if own and x.numel() <= _FEW:
            self._tape.reads.append((x if slot is None else slot, x.detach().clone()))
        else:
            self._tape.doubt = "Python reads a value that depends on the inputs"

    def shaped_by_values(self, function: Any) -> None:
        """Note that the shape of a result depends on values."""
        self._tape.doubt = f"shapes depend on values ({function})"

    def write(self, written: Iterable[Any]) -> None:
        """Tensors are written over, which must not be those of the network."""
        own = {
            tensor.untyped_storage().data_ptr()
            for tensor in self._owned.values()
            if tensor.layout == torch.strided
        }
        for tensor in written:
            strided = isinstance(tensor, Tensor) and tensor.layout == torch.strided
            if not strided or tensor.untyped_storage().data_ptr() in own:
                self._tape.doubt = "the network writes over tensors of its own"


class Ownership:
    """Tells whether a tensor is a parameter or a buffer of some networks."""

    def __init__(self, roots: Sequence[nn.Module]) -> None:
        self._roots = roots
        self._buffers: set[int] | None = None

    def __call__(self, x: Tensor) -> bool:
        """Return whether it is one of theirs."""
        if isinstance(x, nn.Parameter):
            return True
        if self._buffers is None:
            self._buffers = {id(buffer) for root in self._roots for buffer in root.buffers()}
        return id(x) in self._buffers
