"""State of modules between batches: running statistics, counters, averages, caches.

A step may run a network several times over one batch, which counts once: by the first pass. All
others begin with what was kept before it, as else they would depend on its masks.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from operator import is_not
from typing import Any, NamedTuple, TypeVar, final
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from dubio.noise.libraries import package
from dubio.noise.upkeep import Beginning, Upkeep
from dubio.noise.vectorised import is_followed, is_vectorised

_Result = TypeVar("_Result")
_NOTHING = object()
_FEW = 2**16  # entries of a tensor that are copied although it was never written so far


class _Holder(NamedTuple):
    """The buffers or the attributes of a module, now and before the first pass."""

    module: nn.Module
    live: dict[str, Any]
    before: dict[str, Any]


class _Noted(NamedTuple):
    """A tensor before the first pass; with a copy, unless it is not expected to be written."""

    module: nn.Module
    name: str
    tensor: Tensor
    version: int
    copy: Tensor | None

    @property
    def is_written(self) -> bool:
        return isinstance(self.module, _NormBase) or _version(self.tensor) != self.version


class _ChangedEntry(NamedTuple):
    """An entry that the first pass has changed, and what it was."""

    live: dict[str, Any]
    name: str
    before: Any


@final
class StateBeforeStep:
    """What a network holds before a step, from which all passes of the step start.

    Buffers of all modules are looked at, and attributes of those whose code is not torch's or
    dubio's; later passes have copies of what the first has changed. Such networks may also keep
    something deeper: in lists and objects, or in weights. That takes longer to see and to put back
    (`dubio.noise.upkeep`). So it is looked for in the first step, the second, the fourth, …, and
    once something was found, it is put back in every step.

    Attributes:
        deep: Whether more is put back in this step than buffers and attributes.
    """

    def __init__(self) -> None:
        self.deep = False
        self._written: WeakKeyDictionary[nn.Module, dict[str, bool]] = WeakKeyDictionary()
        self._steps = 0  # of networks that may keep something deep
        self._keeps_deep = False
        self._several = False
        self._is_first = True
        self._modules: Sequence[nn.Module] = ()
        self._holders: list[_Holder] = []
        self._tensors: dict[int, _Noted] = {}
        self._changes: list[_ChangedEntry] | None = None

    def __reduce__(self) -> tuple[type["StateBeforeStep"], tuple[()]]:
        return StateBeforeStep, ()  # copies find out for themselves what is written

    def forget(self) -> None:
        """Begin a step with one pass, or end a step."""
        if self._several:
            self._several = self.deep = False
            self._modules, self._holders, self._tensors, self._changes = (), [], {}, None

    def note(self, modules: Sequence[nn.Module], unknown: Sequence[nn.Module] = ()) -> None:
        """Begin a step with several passes.

        Args:
            modules: All modules.
            unknown: Those of which nobody knows what they do.
        """
        self._several = self._is_first = True
        self._modules, self._tensors, self._changes = modules, {}, None
        self._holders = [
            _Holder(module, module._buffers, dict(module._buffers))
            for module in modules
            if module._buffers
        ]
        self.deep = False
        if unknown:
            self._holders += [_Holder(m, vars(m), dict(vars(m))) for m in unknown]
            self._steps += 1
            self.deep = self._keeps_deep or (self._is_due and not _are_followed(modules))
        suspects = set(unknown)
        for module, _, before in self._holders:
            written = self._written.get(module, {})
            suspected = module in suspects
            for name, x in before.items():
                if isinstance(x, Tensor) and id(x) not in self._tensors:
                    copied = written.get(name, True) or (suspected and x.numel() <= _FEW)
                    copy = x.clone() if copied else None
                    self._tensors[id(x)] = _Noted(module, name, x, _version(x), copy)
        self._beginning = Beginning(modules if self.deep else ())

    @property
    def _is_due(self) -> bool:
        return self._steps.bit_count() == 1

    def tensors(self) -> list[Tensor]:
        """Return what the network may read again in the same pass, unlike running statistics."""
        return [
            noted.tensor
            for noted in self._tensors.values()
            if not (isinstance(noted.module, _NormBase) and package(type(noted.module)) == "torch")
        ]

    def run(self, network: Callable[[], _Result]) -> _Result:
        """Run the network from the state before the step; the first pass leaves its own behind."""
        if not self._several:
            return network()
        if not self._is_first:
            if self._changes is None:
                self._changes = self._find_changes()
            return self._beginning.again(lambda: self._as_before(network))
        self._is_first = False
        if not self.deep:
            return network()
        upkeep = None if self._keeps_deep else Upkeep(self._modules, stay=True)
        with upkeep or nullcontext():
            result = self._beginning.first(network)
        self._changes = self._find_changes()
        if upkeep is not None:
            self._keeps_deep = bool(upkeep.changed - self._seen())
        return result

    def _find_changes(self) -> list[_ChangedEntry]:
        """Return the changes of the first pass."""
        changes = []
        for noted in self._tensors.values():
            known = self._written.setdefault(noted.module, {})
            known[noted.name] = known.get(noted.name, False) or noted.is_written
        written = {i for i, noted in self._tensors.items() if noted.is_written}
        for _, live, before in self._holders:
            replaced = len(live) != len(before) or any(map(is_not, live.values(), before.values()))
            if not replaced and written.isdisjoint(map(id, before.values())):
                continue
            for name in dict.fromkeys((*before, *live)):
                was, now = before.get(name, _NOTHING), live.get(name, _NOTHING)
                if (was is not now or id(was) in written) and name != "training":
                    changes.append(_ChangedEntry(live, name, was))
        return changes

    def _as_before(self, network: Callable[[], _Result]) -> _Result:
        """Let modules write into copies of what they had when the step began."""
        if not self._changes:
            return network()
        with _put([change._replace(before=self._own(change.before)) for change in self._changes]):
            return network()

    def _own(self, value: Any) -> Any:
        """Return a tensor of its own for a pass to write into."""
        noted = self._tensors.get(id(value))
        if noted is None:
            return value
        return (noted.tensor if noted.copy is None else noted.copy).clone()

    def _seen(self) -> set[tuple[int, Any]]:
        """Return the changes that are told without looking deeper."""
        counted = [i for i, x in self._tensors.items() if _version(x.tensor) != x.version]
        return {
            *((id(change.live), change.name) for change in self._changes or ()),
            *((i, None) for i in counted),
        }


@contextmanager
def _put(changes: Sequence[_ChangedEntry]) -> Iterator[None]:
    """Put values into entries of dicts, and those that are there back at the end."""
    now = [change.live.get(change.name, _NOTHING) for change in changes]
    try:
        for live, name, value in changes:
            _set(live, name, value)
        yield
    finally:
        for (live, name, _), value in zip(changes, now, strict=True):
            _set(live, name, value)


def _set(live: dict[str, Any], name: str, value: Any) -> None:
    if value is _NOTHING:
        live.pop(name, None)
    else:
        live[name] = value


def _are_followed(modules: Sequence[nn.Module]) -> bool:
    """Return whether a transform such as `torch.vmap` is at work on the weights."""
    return any(
        is_followed(x) for module in modules for x in module._parameters.values() if x is not None
    )


def _version(tensor: Tensor) -> int:
    """Return how often a tensor was written to, where that is counted."""
    if is_vectorised(tensor) or tensor.is_inference():
        return -1
    return tensor._version
