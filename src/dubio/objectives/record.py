"""What a pass does with what its masks let through, written down while it runs.

Operations that no mask has a part in are passed over. The others are steps of a record, in which
tensors are places in numbered storages, so that views and writing in place need no further thought.
Equal records do the same with rows, whatever the numbers are that they do it to.
"""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from dubio.draws.traits import Traits, traits_of, written
from dubio.draws.trunk import LOOKS, MAKERS

_aten = torch.ops.aten
# They give memory that nothing was written to yet, or that was written to out of sight.
_FRESH = frozenset(
    {_aten.empty, _aten.empty_like, _aten.empty_strided, _aten.new_empty, _aten.new_empty_strided}
    | {_aten.lift_fresh}
)
_BATCH_NORMS = frozenset({_aten.native_batch_norm, _aten.cudnn_batch_norm})
_INDEXING = frozenset({_aten.index, _aten.index_put, _aten.index_put_})
# They write nothing but the shape of a tensor.
_FORMS = frozenset(
    {_aten.transpose_, _aten.t_, _aten.squeeze_, _aten.unsqueeze_, _aten.as_strided_}
    | {_aten.detach_, _aten.swapdims_, _aten.swapaxes_}
)
_FEW = 2**16  # entries of an index that are looked at


class StoragePlace(NamedTuple):
    """A tensor as a place in a storage.

    Attributes:
        storage: The number of the storage; negative if no mask has a part in it.
        shape: The shape of the tensor.
        strides: Its strides.
        offset: Where it begins.
        dtype: Of what its entries are.
    """

    storage: int
    shape: torch.Size
    strides: tuple[int, ...] = ()
    offset: int = 0
    dtype: torch.dtype = torch.float32


class Index(NamedTuple):
    """Indices that no mask has a part in, with their values."""

    shape: torch.Size
    dtype: torch.dtype
    values: tuple[int, ...]


class RecordedOperation(NamedTuple):
    """An operation on tensors that depend on masks.

    Attributes:
        function: The operation.
        args: Its arguments, with places for tensors; all floating-point numbers are the same.
        kwargs: The named ones.
        results: New tensors.
        written: Tensors that it writes into.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    results: tuple[StoragePlace, ...]
    written: tuple[StoragePlace, ...]


class Source(NamedTuple):
    """Something that tensors may depend on begins here.

    Attributes:
        place: Where.
        axis: The axis of the rows; None where nothing is known of the values.
    """

    place: StoragePlace
    axis: int | None


class Record:
    """What a pass does with what its masks let through.

    Attributes:
        steps: Sources and steps, in order.
        lost: Whether something is done that cannot be followed, as when Python sees values.
    """

    def __init__(self) -> None:
        self.steps: list[Source | RecordedOperation] = []
        self.lost = False
        self.numbers: dict[int, int] = {}  # of storages, by address
        self._references: list[StorageWeakRef] = []  # as long as there is one, addresses hold

    def begin(self, tensor: Tensor, axis: int | None) -> None:
        """Note that a tensor has the rows on an axis; None if nothing is known."""
        self._number(tensor)
        self.steps.append(Source(self.place(tensor), axis))

    def place(self, tensor: Tensor) -> StoragePlace:
        """Return where a tensor is."""
        number = self.numbers.get(_address(tensor), -1)
        if number < 0:
            return StoragePlace(-1, tensor.shape)
        offset = int(tensor.storage_offset())
        return StoragePlace(number, tensor.shape, tensor.stride(), offset, tensor.dtype)

    def knows(self, things: Iterable[Any]) -> bool:
        """Return whether there is a tensor among some things that depends on masks."""
        for thing in things:
            if isinstance(thing, Tensor):
                if _address(thing) in self.numbers:
                    return True
            elif type(thing) in (list, tuple) and self.knows(thing):
                return True
        return False

    def carry_out(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], traits: Traits
    ) -> Any:
        """Carry out an operation on tensors that depend on masks, and write it down."""
        packet = function.overloadpacket
        targets = [] if packet in _FORMS else _tensors(written(traits, args, kwargs))
        if packet in _BATCH_NORMS and args[5]:
            targets += _tensors(args[3:5])  # running statistics
        indices = packet in _INDEXING
        by_value = traits.shapes and not (indices and not self._is_mask(args[1]))
        for target in targets:
            self._number(target)
        told = tuple([self._tell(arg, indices) for arg in args])
        named = tuple([(name, self._tell(arg, indices)) for name, arg in kwargs.items()])
        given = {_address(x) for x in _tensors((*args, *kwargs.values()))}
        out = function(*args, **kwargs)
        outputs = _tensors((out,))
        new = [x for x in outputs if _address(x) not in given or _address(x) == 0]
        for tensor in new:
            self._number(tensor)
        if by_value or not (outputs or targets or isinstance(out, list)):
            self.lost = True  # Python sees what depends on masks
        if new or targets:
            places = tuple(map(self.place, new)), tuple(map(self.place, targets))
            self.steps.append(RecordedOperation(function, told, named, *places))
        return out

    def _number(self, tensor: Tensor) -> None:
        address = _address(tensor)
        if address == 0:  # sparse, or another that is not simply stored
            self.lost = True
        elif address not in self.numbers:
            self.numbers[address] = len(self._references)
            self._references.append(StorageWeakRef(tensor.untyped_storage()))

    def _is_mask(self, indices: Any) -> bool:
        """Return whether values that depend on masks decide how many entries are taken."""
        return any(
            x.dtype in (torch.bool, torch.uint8) and self.knows([x]) for x in _tensors(indices)
        )

    def _tell(self, arg: Any, indices: bool) -> Hashable:
        if isinstance(arg, Tensor):
            place = self.place(arg)
            integral = not arg.is_floating_point() and not arg.is_complex()
            if indices and place.storage < 0 and integral and arg.numel() <= _FEW:
                return Index(arg.shape, arg.dtype, tuple(arg.flatten().tolist()))
            return place
        if type(arg) in (list, tuple):
            return tuple([self._tell(part, indices) for part in arg])
        if isinstance(arg, float | complex | torch.Generator):
            return float
        return arg  # type: ignore[no-any-return]


@contextmanager
def recording(record: Record) -> Iterator[None]:
    """Write down what happens inside of this context."""
    functions = _Functions(record)
    with functions, _Operations(record, functions):
        yield


class _Operations(TorchDispatchMode):
    """Sees every operation."""

    supports_higher_order_operators = True

    def __init__(self, record: Record, functions: "_Functions") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._record = record
        self._functions = functions

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to keep it out of here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        record = self._record
        if not isinstance(func, torch._ops.OpOverload):
            record.lost = True
            return func(*args, **kwargs)
        fresh = func.overloadpacket in _FRESH
        if not fresh and record.numbers and record.knows((*args, *kwargs.values())):
            return record.carry_out(func, args, kwargs, traits_of(func))
        out = func(*args, **kwargs)
        if fresh and torch._C._is_torch_function_enabled():  # else it is dubio's own
            if func is not _aten.lift_fresh.default:
                if out.numel() > 0:
                    record.begin(out, None)  # until something is written that can be seen
            elif not self._functions.calling:
                record.lost = True  # torch.Tensor(...) and its like, which read tensors in C
        return out


class _Functions(TorchFunctionMode):
    """Sees functions by which Python gets at values without any operation."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.calling = False
        self._record = record

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        looks = name in LOOKS or (name in MAKERS and not isinstance(args[0], Tensor))
        if looks and name != "__repr__" and self._record.knows(args):
            self._record.lost = True
        self.calling = True
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.calling = False


def _address(tensor: Tensor) -> int:
    """Return where the storage of a tensor is; zero if it has none that can be looked at."""
    try:
        return tensor.untyped_storage()._cdata  # type: ignore[no-any-return]
    except (NotImplementedError, RuntimeError):
        return 0


def _tensors(things: Iterable[Any]) -> list[Tensor]:
    found = []
    for thing in things:
        if isinstance(thing, Tensor):
            found.append(thing)
        elif type(thing) in (list, tuple):
            found += _tensors(thing)
    return found
