"""Which tensors of a pass depend on its noise, and which of them share memory.

A tensor that was computed from noise is known by its identity and has a slot on the tape. Others
may look at the same memory: views, and whatever else torch or the network makes of it. A memory
therefore has a list of what was written into it. Whoever reads a part of it after a write gets what
it held before, with the entries that were written put in their places. So values on the tape are
never overwritten, and no two of them share anything.
"""

import weakref
from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor

from dubio.draws.arguments import Arguments, Operand, Slot
from dubio.draws.functional import patched, rearranged
from dubio.draws.tape import Tape

MOST_PATCHES = 64


class TooManyWritesError(Exception):
    """Memory is written and read in more ways than are worth to be followed."""


def address(x: Tensor) -> int | None:
    """Return where the memory of a tensor is; None if it has none of the usual kind."""
    try:
        return int(torch._C._storage_address(x))  # type: ignore[attr-defined]
    except (RuntimeError, NotImplementedError):  # sparse ones, and those inside of torch.func
        return None


@final
class Reserved:
    """Pieces of memory whose addresses nothing else will have; they may be let go themselves."""

    def __init__(self) -> None:
        self._addresses: set[int | None] = set()

    def __contains__(self, where: int | None) -> bool:
        return where in self._addresses

    def add(self, x: Tensor) -> None:
        """Reserve the address of a tensor's memory; out of sight of whoever looks at functions."""
        if address(x) not in self._addresses and address(x) is not None:
            self._addresses.add(x.untyped_storage()._weak_ref())  # type: ignore[arg-type]

    def __del__(self) -> None:
        for where in self._addresses:
            torch.UntypedStorage._free_weak_ref(where)


class Geometry(NamedTuple):
    """Where in its memory the entries of a tensor are."""

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    @classmethod
    def of(cls, x: Tensor) -> "Geometry":
        """Return that of a tensor."""
        with torch._C.DisableTorchFunction():
            return cls(x.shape, x.stride(), int(x.storage_offset()), x.dtype)

    @property
    def places(self) -> Tensor:
        """The place of every entry."""
        return torch.as_strided(torch.arange(self._extent), self.shape, self.stride, self.offset)

    @property
    def _extent(self) -> int:
        steps = ((size - 1) * stride for size, stride in zip(self.shape, self.stride, strict=True))
        return self.offset + sum(steps) + 1 if self.shape.numel() else self.offset


class _NoisyTensor(NamedTuple):
    """A tensor that depends on the noise."""

    tensor: "weakref.ref[Tensor]"
    slot: Slot
    memory: "_NoisyMemory"
    writes: int  # how many writes into its memory are in the value of its slot


class _NoisyMemory:
    """A piece of memory in which something depends on the noise."""

    def __init__(self) -> None:
        self.writes: list[tuple[Geometry, Slot | None]] = []


@final
class Sampled:
    """The tensors of a pass that depend on its noise.

    Args:
        tape: Where they are computed.
        constant: How the tape refers to what a tensor holds now that does not depend on the noise.
    """

    def __init__(self, tape: Tape, constant: Callable[[Tensor], Operand]) -> None:
        self._tape = tape
        self._constant = constant
        self._known: dict[int, _NoisyTensor] = {}
        self._memories: dict[int | None, _NoisyMemory] = {}
        self._reserved = Reserved()
        self._patches = 0

    def __bool__(self) -> bool:
        return bool(self._memories)

    def slot(self, x: Tensor) -> Slot | None:
        """Return the slot of what a tensor holds now; None if that does not depend on the noise."""
        memory = self._memories.get(address(x)) if self._memories else None
        if memory is None:
            return None
        known = self._known.get(id(x))
        if known is not None and known.tensor() is x and known.memory is memory:
            if known.writes == len(memory.writes):
                return known.slot
            return self._update(x, memory, known.slot, known.writes)
        return self._update(x, memory, None, 0)

    def shares(self, x: Tensor) -> bool:
        """Return whether something in the memory of a tensor depends on the noise."""
        return bool(self._memories) and address(x) in self._memories

    def result(self, x: Tensor, slot: Slot) -> None:
        """Note that a tensor was computed: a new one, or a view of another."""
        memory = self._memories.get(address(x))
        if memory is None:
            self.write(x, slot)
        else:
            self._know(x, slot, memory)

    def write(self, x: Tensor, slot: Slot | None) -> None:
        """Note that a tensor was overwritten; without a slot, independently of the noise."""
        memory = self._memories.get(address(x))
        if memory is None:
            memory = self._memories[address(x)] = _NoisyMemory()
            with torch._C.DisableTorchFunction():
                self._reserved.add(x)
        memory.writes.append((Geometry.of(x), slot))
        if slot is not None:
            self._know(x, slot, memory)

    def _know(self, x: Tensor, slot: Slot, memory: _NoisyMemory) -> None:
        key = id(x)
        reference = weakref.ref(x, lambda _: self._known.pop(key, None))
        self._known[key] = _NoisyTensor(reference, slot, memory, len(memory.writes))

    def _update(
        self, x: Tensor, memory: _NoisyMemory, slot: Slot | None, start: int
    ) -> Slot | None:
        """Return the slot of a tensor whose memory was written since its slot was filled."""
        own, value = Geometry.of(x), slot
        for geometry, written in memory.writes[start:]:
            value = self._after_write(x, own, value, geometry, written)
        if value is not None:
            self._know(x, value, memory)
        return value

    def _after_write(
        self, x: Tensor, own: Geometry, value: Slot | None, geometry: Geometry, written: Slot | None
    ) -> Slot | None:
        """Return the slot of a tensor after a write into some part of its memory."""
        if geometry == own or (value is None and written is None):
            return written
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            index = _index(own, geometry)
            hit = index >= 0
            covered, touched = bool(hit.all()), bool(hit.any())
            if written is None:  # what was written is there now
                index = torch.arange(hit.numel()).view(hit.shape).masked_fill(~hit, -1)
            index = index.to(x.device)
        if not touched:
            return value
        if covered and written is None:
            return None
        self._patches += 1
        if geometry.dtype != own.dtype or self._patches > MOST_PATCHES:
            raise TooManyWritesError
        if covered:
            return self._tape.call(rearranged, Arguments([written, index], {}), [x])[0]
        before, source = (self._constant(x) if part is None else part for part in (value, written))
        return self._tape.call(patched, Arguments([before, source, index], {}), [x])[0]


def _index(own: Geometry, other: Geometry) -> Tensor:
    """For every entry of a tensor its place among the entries of another, or −1."""
    places, theirs = own.places, other.places.reshape(-1)
    if not len(theirs) or not places.numel():
        return torch.full(own.shape, -1)
    ordered, order = theirs.sort()
    found = torch.searchsorted(ordered, places.reshape(-1)).clamp(max=len(ordered) - 1)
    same = ordered[found] == places.reshape(-1)
    return torch.where(same, order[found], -1).view(own.shape)
