"""What a network holds, put back after a pass that must leave no trace."""

import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from operator import is_not
from typing import Any, Self, final

import numpy
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from dubio.noise.libraries import PYTHON, package

_LIBRARIES = PYTHON | {"torch", "numpy"}
_RANDOM = torch.Tag.nondeterministic_seeded


@final
class Upkeep(TorchDispatchMode):
    """Around a pass: everything that modules hold is afterwards what it was.

    That is their attributes, what is in lists, dicts and objects there, the numbers in tensors, and
    if they are rewound, generators: those of the modules, and the global ones of torch, Python and
    numpy. Flags of train and eval mode are the business of others.

    Args:
        modules: The modules, without those inside of them.
        rewind: Whether generators are put back, too: not in passes whose random numbers count.

    Attributes:
        changed: Which places had to be put back.
        drawn: Random operations that nobody has fed, and whose generators had to be put back.
    """

    def __init__(self, modules: Iterable[nn.Module], *, rewind: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.changed: set[tuple[int, Any]] = set()
        self.drawn: list[str] = []
        self._modules = list(modules)
        self._rewind = rewind

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to keep it out of here

    def __enter__(self) -> Self:
        self._seen: dict[int, Any] = {}
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._lists: list[tuple[Any, list[Any]]] = []
        self._tensors: list[tuple[Tensor, Tensor, int]] = []  # each with its data and version
        self._arrays: list[tuple[Any, Any]] = []
        self._generators: list[tuple[Callable[[Any], Any], Callable[[], Any], Any]] = []
        self._memory: dict[int, tuple[Any, Any]] = {}  # storages that are written over, and copies
        self._torchs: Tensor | None = None  # where torch's generator stood
        for module in self._modules:
            self._look(module)
        self._owned = {_memory(tensor): tensor for tensor, _, _ in self._tensors}
        self._elsewhere = random.getstate(), numpy.random.get_state()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        self._put_back_tensors()
        for live, saved in self._dicts:
            self._put_back_dict(live, saved)
        for live, entries in self._lists:
            if len(live) != len(entries) or any(map(is_not, live, entries)):
                self.changed.add((id(live), None))
                live.clear()
                (live.update if isinstance(live, set) else live.extend)(entries)
        for array, copy in self._arrays:
            if not numpy.array_equal(array, copy):
                self.changed.add((id(array), None))
                array[...] = copy
        if self._rewind:
            self._put_back_generators()

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
                self._torchs = torch.get_rng_state()
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
            self._generators.append((thing.set_state, thing.get_state, thing.get_state()))
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
        elif package(type(thing)) not in _LIBRARIES:
            self._look(getattr(thing, "__dict__", None))

    def _look_at_all(self, things: Iterable[Any]) -> None:
        for thing in list(things):
            self._look(thing)

    def _put_back_dict(self, live: dict[Any, Any], saved: dict[Any, Any]) -> None:
        for key in [key for key in live if key not in saved]:
            self.changed.add((id(live), key))
            del live[key]
        for key, value in saved.items():
            if key != "training" and (key not in live or live[key] is not value):
                self.changed.add((id(live), key))
                live[key] = value

    def _put_back_tensors(self) -> None:
        for storage, copy in self._memory.values():
            storage.copy_(copy)
        written: list[tuple[Tensor, int]] = []
        for tensor, data, version in self._tensors:
            if tensor.data_ptr() != data.data_ptr() or tensor.shape != data.shape:
                self.changed.add((id(tensor), "data"))
                tensor.data = data
            if version >= 0 and tensor._version != version:
                self.changed.add((id(tensor), None))
                written.append((tensor, version))
            elif _memory(tensor) in self._memory:  # in inference mode, or through .data
                self.changed.add((id(tensor), None))
        if written:
            tensors, versions = zip(*written, strict=True)
            torch._C._autograd._unsafe_set_version_counter(tensors, versions)

    def _put_back_generators(self) -> None:
        for put, get, state in self._generators:
            if not _same_state(get(), state):
                put(state)
        if self._torchs is not None:
            torch.set_rng_state(self._torchs)
        own, numpys = self._elsewhere
        if random.getstate() != own:
            self.drawn.append("random")
            random.setstate(own)
        if not _same_state(numpy.random.get_state(), numpys):
            self.drawn.append("numpy.random")
            numpy.random.set_state(numpys)


@cache
def _written(function: Any) -> tuple[tuple[int, str], ...]:
    """Positions and names of the arguments that an operation writes into."""
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
