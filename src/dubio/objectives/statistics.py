"""What modules keep in their buffers from batch to batch, as batch normalisation does.

A step may run a network several times over one batch, which counts once: by the first pass. All
others begin with what was kept before it, as else they would depend on its masks.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, final
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from dubio.noise.libraries import package
from dubio.noise.vectorised import is_vectorised


class _Buffer(NamedTuple):
    """A buffer before the first pass; with a copy, unless it was never written so far."""

    module: nn.Module
    name: str
    tensor: Tensor
    version: int
    copy: Tensor | None

    @property
    def now(self) -> Tensor | None:
        return self.module._buffers.get(self.name)

    @property
    def is_written(self) -> bool:
        now = self.now
        return (
            isinstance(self.module, _NormBase)
            or now is not self.tensor
            or _version(now) != self.version
        )


@final
class Statistics:
    """The buffers of a network as they are before a step."""

    def __init__(self) -> None:
        self._constant: WeakKeyDictionary[nn.Module, set[str]] = WeakKeyDictionary()
        self._before: list[_Buffer] = []

    def __reduce__(self) -> tuple[type["Statistics"], tuple[()]]:
        return Statistics, ()  # copies find out for themselves what is written

    def note(self, modules: Sequence[nn.Module]) -> None:
        """A step begins."""
        self._before = [
            _Buffer(
                module, name, x, _version(x), None if self._is_constant(module, name) else x.clone()
            )
            for module in modules
            if module._buffers
            for name, x in module._buffers.items()
            if x is not None
        ]

    def buffers(self) -> list[Tensor]:
        """All that a network may read again in the same pass, unlike running statistics."""
        return [
            buffer.tensor
            for buffer in self._before
            if not (isinstance(buffer.module, _NormBase) and package(type(buffer.module)) == "torch")
        ]

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """Let modules write into copies of what they had when the step began."""
        written = []
        for buffer in self._before:
            constant = self._constant.setdefault(buffer.module, set())
            if buffer.is_written:
                constant.discard(buffer.name)
                written.append((buffer, buffer.now))
            else:
                constant.add(buffer.name)
        try:
            for buffer, now in written:
                own = now if buffer.copy is None else buffer.copy
                buffer.module._buffers[buffer.name] = None if own is None else own.clone()
            yield
        finally:
            for buffer, now in written:
                buffer.module._buffers[buffer.name] = now

    def _is_constant(self, module: nn.Module, name: str) -> bool:
        return name in self._constant.get(module, ())


def _version(tensor: Tensor | None) -> int:
    """How often a tensor was written to, where that is counted."""
    if tensor is None or is_vectorised(tensor) or tensor.is_inference():
        return -1
    return tensor._version
