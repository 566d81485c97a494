"""Restore the state of a network after a pass that must leave no trace.

A network may keep something from one pass to the next: a hidden state, a cache, a counter. All
draws are to start from the same state, and a pass that only looks at the network must leave none.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from operator import is_not
from types import FunctionType, MethodType
from typing import Any, NamedTuple, Self, TypeVar, final

import numpy
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from dubio.noise.generators import global_states, set_global_states
from dubio.noise.libraries import PYTHON, package

_LIBRARIES = PYTHON | {"torch", "numpy"}
_RANDOM = torch.Tag.nondeterministic_seeded
_NOTHING = object()
_cells: dict[type, tuple[Any, ...]] = {}

_Result = TypeVar("_Result")


class _UndoableChange(NamedTuple):
    """Something that a pass has changed."""

    undo: Callable[[], object]
    redo: Callable[[], object]


@final
class Upkeep(TorchDispatchMode):
    """Restores everything that modules hold after a pass.

    That is their attributes, what is in lists, dicts and objects there, the numbers in tensors, and
    if they are rewound, generators: those of the modules, and the global ones of torch, Python and
    numpy. Flags of train and eval mode are the business of others.

    Args:
        things: Modules, without those inside of them, and functions that call them.
        rewind: Whether generators are put back, too: not in passes whose random numbers count.
        stay: Whether all stays as the pass has left it, until `undo`.

    Attributes:
        changed: Which places had to be put back.
        drawn: Random operations that nobody has fed, and whose generators had to be put back.
    """

    def __init__(self, things: Iterable[Any], *, rewind: bool = False, stay: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.changed: set[tuple[int, Any]] = set()
        self.drawn: list[str] = []
        self._things = list(things)
        self._rewind = rewind
        self._stay = stay
        self._changes: list[_UndoableChange] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to keep it out of here

    def __enter__(self) -> Self:
        self._seen: dict[int, Any] = {}
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._lists: list[tuple[Any, list[Any]]] = []
        self._tensors: list[tuple[Tensor, Tensor, int]] = []  # each with its data and version
        self._arrays: list[tuple[Any, Any]] = []
        self._slotted: list[tuple[Any, dict[str, Any]]] = []
        self._generators: list[tuple[Callable[[Any], Any], Callable[[], Any], Any]] = []
        self._torchs_own: list[tuple[torch.Generator, Tensor]] = []
        self._memory: dict[int, tuple[Any, Any]] = {}  # storages that are written over, and copies
        self._torchs: list[Tensor] | None = None  # where torch's generators stood
        for thing in self._things:
            self._look(thing)
        self._owned = {_memory(tensor): tensor for tensor, _, _ in self._tensors}
        self._elsewhere = random.getstate(), numpy.random.get_state()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        built = set() if self._rewind else set(map(id, self._built()))
        self._compare_tensors()
        for live, saved in self._dicts:
            if id(live) not in built:
                self._compare_dict(live, saved)
        for live, entries in self._lists:
            if len(live) != len(entries) or any(map(is_not, live, entries)):
                self._note(live, None, partial(_fill, live, entries), partial(_fill, live, [*live]))
        for thing, saved in self._slotted:
            for name, before in saved.items():
                now = getattr(thing, name, _NOTHING)
                if now is not before:
                    back = partial(setattr, thing, name, before)
                    self._note(thing, name, back, partial(setattr, thing, name, now))
        for array, copy in self._arrays:
            if not numpy.array_equal(array, copy, equal_nan=array.dtype.kind in "fc"):
                now = array.copy()
                self._note(array, None, partial(_write, array, copy), partial(_write, array, now))
        if not self._stay:
            self.undo()
        if self._rewind:
            self._put_back_generators()

    def undo(self) -> None:
        """Bring the network back into the state before the pass."""
        for change in reversed(self._changes):
            change.undo()

    def redo(self) -> None:
        """Bring it into the state after the pass again."""
        for change in self._changes:
            change.redo()

    def _note(
        self, thing: Any, key: Any, undo: Callable[[], object], redo: Callable[[], object]
    ) -> None:
        self.changed.add((id(thing), key))
        self._changes.append(_UndoableChange(undo, redo))

    def _built(self) -> Iterator[dict[str, Any]]:
        """Yield what modules hold that have made parts of themselves; those are there to stay."""
        saved = {id(live): before for live, before in self._dicts}
        for module in self._things:
            if not isinstance(module, nn.Module):
                continue
            parts = (module._parameters, module._modules, module._buffers)
            if any(
                part is not None and saved.get(id(live), live).get(name) is None
                for live in parts[:2]
                for name, part in live.items()
            ):
                yield from (vars(module), *parts)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Keep what is about to be written over, or to move torch's generator."""
        kwargs = kwargs or {}
        for position, name in _written(func):
            target = args[position] if position < len(args) else kwargs.get(name)
            for tensor in target if isinstance(target, list | tuple) else (target,):
                place = _memory(tensor) if isinstance(tensor, Tensor) else 0
                if place in self._owned and place not in self._memory:
                    storage = self._owned[place].untyped_storage()
                    with torch._C._DisableTorchDispatch():
                        self._memory[place] = (storage, storage.clone())
        if _is_random(func) and kwargs.get("generator") is None:
            if self._torchs is None:
                self._torchs = global_states()
            self.drawn.append(func.name().split("::")[-1])
        return func(*args, **kwargs)

    def _look(self, thing: Any) -> None:
        if thing is None or isinstance(thing, str | int | float | type) or id(thing) in self._seen:
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, Tensor):
            if thing.layout != torch.strided or thing.is_meta or is_lazy(thing):
                return
            version = -1 if thing.is_inference() else thing._version
            self._tensors.append((thing, thing.data, version))
        elif isinstance(thing, dict):
            self._dicts.append((thing, dict(thing)))
            self._look_at_all(thing.values())
        elif isinstance(thing, list | set | deque):
            self._lists.append((thing, list(thing)))
            self._look_at_all(thing)
        elif isinstance(thing, tuple):
            self._look_at_all(thing)
        elif isinstance(thing, numpy.ndarray):
            self._arrays.append((thing, thing.copy()))
        elif isinstance(thing, torch.Generator):
            self._torchs_own.append((thing, thing.get_state()))
        elif isinstance(thing, random.Random):
            self._generators.append((thing.setstate, thing.getstate, thing.getstate()))
        elif isinstance(thing, numpy.random.Generator):
            self._look(thing.bit_generator)
        elif isinstance(thing, numpy.random.RandomState):
            self._generators.append((thing.set_state, thing.get_state, thing.get_state()))
        elif isinstance(thing, numpy.random.BitGenerator):
            bits = thing
            self._generators.append(
                (lambda state: setattr(bits, "state", state), lambda: bits.state, bits.state)
            )
        elif isinstance(thing, nn.Module):
            self._dicts.append((thing._modules, dict(thing._modules)))
            self._seen[id(thing._modules)] = thing._modules  # and not what is in there
            self._look(vars(thing))
            self._look_at_all(_contents(_cells_of(type(thing))))
        elif isinstance(thing, FunctionType):
            self._look_at_all(_contents(thing.__closure__ or ()))
        elif isinstance(thing, MethodType):
            self._look(thing.__self__)
        elif isinstance(thing, partial):
            self._look_at_all((thing.func, *thing.args, *thing.keywords.values()))
        elif package(type(thing)) not in _LIBRARIES:
            self._look(getattr(thing, "__dict__", None))
            self._look_at_slots(thing)

    def _look_at_slots(self, thing: Any) -> None:
        names = [
            name
            for kind in type(thing).__mro__
            if package(kind) not in _LIBRARIES
            for name in _slots(kind)
            if hasattr(thing, name)
        ]
        if names:
            self._slotted.append((thing, {name: getattr(thing, name) for name in names}))
            self._look_at_all(getattr(thing, name) for name in names)

    def _look_at_all(self, things: Iterable[Any]) -> None:
        for thing in list(things):
            self._look(thing)

    def _compare_dict(self, live: dict[Any, Any], saved: dict[Any, Any]) -> None:
        for key in [*saved, *(key for key in live if key not in saved)]:
            before, now = saved.get(key, _NOTHING), live.get(key, _NOTHING)
            if before is not now and key != "training":
                self._note(
                    live, key, partial(_put, live, key, before), partial(_put, live, key, now)
                )

    def _compare_tensors(self) -> None:
        for storage, copy in self._memory.values():
            now = storage.clone()
            self._changes.append(
                _UndoableChange(partial(storage.copy_, copy), partial(storage.copy_, now))
            )
        for tensor, data, version in self._tensors:
            now = tensor.data
            if now.data_ptr() != data.data_ptr() or now.shape != data.shape:
                self._note(
                    tensor,
                    "data",
                    partial(setattr, tensor, "data", data),
                    partial(setattr, tensor, "data", now),
                )
            if version >= 0 and tensor._version != version:
                back = partial(_set_version, tensor, version)
                self._note(tensor, None, back, partial(_set_version, tensor, tensor._version))
            elif _memory(tensor) in self._memory:  # in inference mode, or through .data
                self.changed.add((id(tensor), None))

    def _put_back_generators(self) -> None:
        for generator, place in self._torchs_own:  # what they are used for is seen
            if not torch.equal(generator.get_state(), place):
                generator.set_state(place)
        for put, get, state in self._generators:
            if not _same_state(get(), state):
                self.drawn.append("a generator of its own")
                put(state)
        if self._torchs is not None:
            set_global_states(self._torchs)
        own, numpys = self._elsewhere
        if random.getstate() != own:
            self.drawn.append("random")
            random.setstate(own)
        if not _same_state(numpy.random.get_state(), numpys):
            self.drawn.append("numpy.random")
            numpy.random.set_state(numpys)


@final
class Beginning:
    """Passes that all start from one state; the first leaves the network in that of one pass.

    Args:
        things: All modules, if the network keeps a state; none if it does not.
    """

    def __init__(self, things: Sequence[Any]) -> None:
        self._things = things
        self._first: Upkeep | None = None

    def first(self, run: Callable[[], _Result]) -> _Result:
        """Run the network, and leave it as it is then; a first pass before does not count."""
        self.void()
        if not self._things:
            return run()
        self._first = Upkeep(self._things, stay=True)
        with self._first:
            return run()

    def void(self) -> None:
        """Take the first pass back."""
        if self._first is not None:
            self._first.undo()
            self._first = None

    def again(self, run: Callable[[], _Result]) -> _Result:
        """Run the network from where the first pass has begun, and leave no trace."""
        if not self._things:
            return run()
        if self._first is not None:
            self._first.undo()
        try:
            with Upkeep(self._things):
                return run()
        finally:
            if self._first is not None:
                self._first.redo()


def _cells_of(kind: type) -> tuple[Any, ...]:
    """Return variables around the methods of a class that was made in a function."""
    if kind not in _cells:
        _cells[kind] = tuple(
            cell
            for ancestor in kind.__mro__
            if package(ancestor) not in _LIBRARIES
            for method in vars(ancestor).values()
            if isinstance(method, FunctionType)
            for cell in method.__closure__ or ()
        )
    return _cells[kind]


def _contents(cells: Iterable[Any]) -> Iterator[Any]:
    for cell in cells:
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents


def _put(live: dict[Any, Any], key: Any, value: Any) -> None:
    if value is _NOTHING:
        dict.pop(live, key, None)
    else:
        dict.__setitem__(live, key, value)


def _fill(live: Any, entries: list[Any]) -> None:
    live.clear()
    (live.update if isinstance(live, set) else live.extend)(entries)


def _write(array: Any, content: Any) -> None:
    array[...] = content


def _set_version(tensor: Tensor, version: int) -> None:
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def _slots(kind: type) -> Sequence[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


@cache
def _written(function: Any) -> tuple[tuple[int, str], ...]:
    """Return positions and names of the arguments that an operation writes into."""
    if not isinstance(function, torch._ops.OpOverload):
        return ()
    return tuple(
        (i, argument.name)
        for i, argument in enumerate(function._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


@cache
def _is_random(function: Any) -> bool:
    fed = "scaled_dot_product" in str(function)  # whose dropout is taken out
    return isinstance(function, torch._ops.OpOverload) and _RANDOM in function.tags and not fed


def _memory(tensor: Tensor) -> int:
    if tensor.layout != torch.strided:
        return 0
    with torch._C._DisableTorchDispatch():
        place: int = tensor.untyped_storage()._cdata
        return place


def _same_state(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return all(_same_state(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same_state, one, other))
    if isinstance(one, numpy.ndarray):
        return bool((one == other).all())
    return bool(one == other)
