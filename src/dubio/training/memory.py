"""State that an objective keeps outside of its state_dict: counters, averages, a teacher in a list.

Plain values that training changes are saved and restored; those that it does not change are left to
the user's code. What cannot be restored is reported.
"""

import io
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Self, TypeAlias, final

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from dubio.noise.libraries import package
from dubio.training.errors import CheckpointError
from dubio.training.holders import Generator, is_library
from dubio.training.values import Owner, Written, is_plain, is_same, put, written

Key: TypeAlias = str | int
NotesByKey: TypeAlias = dict[Key, Written]
OwnedValues: TypeAlias = dict[Key, tuple[Owner, Any]]  # where a value is, and the value

_OF_MODULES = frozenset(vars(nn.Module()))
_OF_OPTIMIZERS = ("state", "param_groups", "defaults", "step", "_optimizer_", "_opt_called")
_CODE = (FunctionType, BuiltinFunctionType, MethodType, partial, type, ModuleType, Generator)
_ADVICE = (
    "so an interrupted run cannot be resumed exactly if the loss depends on it. "
    "Make it before fit, of tensors, numbers, lists, dicts or modules, or return its state from "
    "get_extra_state"
)
_moved: dict[
    int, NotesByKey
] = {}  # as it was at first, of objects that a run of this process has moved


@final
class Memory:
    """Changes of attributes of an objective and its optimizer since the first step.

    It is a context, in which they may change.

    Args:
        objective: What is minimised. Parameters, and buffers that are in its state_dict, are left
            out.
        optimizer: What moves its parameters; the state in its state_dict is left out.
        schedule: What moves the learning rate, which is saved as a whole.
    """

    def __init__(
        self, objective: nn.Module, optimizer: Optimizer, schedule: LRScheduler | None
    ) -> None:
        self._saved = {id(saved) for saved in (*objective.modules(), optimizer, schedule)}
        self._parts = dict(self._walk({"objective": objective, "optimizer": optimizer}))
        self._others = {path: self._kept(thing) for path, thing in self._parts.items()}
        self._at_first = {
            path: self._plain(thing) | _moved.get(id(thing), {})
            for path, thing in self._parts.items()
        }
        self._is_told = False

    def warn(self) -> None:
        """Warn about state that cannot be saved."""
        for path, others in self._others.items():
            for key, value in others.items():
                moves = isinstance(value, Iterator) and not isinstance(value, io.IOBase)
                learns = hasattr(type(value), "load_state_dict")
                known = isinstance(value, nn.Module) or id(value) in self._saved
                if (moves or learns) and not known and not self._places(value):
                    self._tell(f"{path}.{key}, a {type(value).__name__} whose state is not seen")

    def get(self) -> dict[str, NotesByKey]:
        """Return the changes, in types that ``torch.load(weights_only=True)`` accepts."""
        changes = {}
        for path, thing in self._parts.items():
            before, now = self._others[path], self._kept(thing)
            replaced = [k for k in before | now if before.get(k) is not now.get(k)]
            if replaced:  # and half of an object may be worse than nothing of it
                self._tell(f"{path}.{replaced[0]}, an object that comes or goes in training")
                continue
            first = self._at_first[path]
            changed = {k: v for k, v in self._plain(thing).items() if not is_same(v, first.get(k))}
            if changed:
                changes[path] = changed
        return changes

    def set(self, changes: dict[str, NotesByKey]) -> None:
        """Put the changes back, and what an interrupted run of this process has moved as it was."""
        unknown = changes.keys() - self._parts.keys()
        if unknown:
            raise CheckpointError(
                f"checkpoint: expected an objective with the same parts as before, got none that "
                f"is {', '.join(sorted(unknown))}; pass the same objective, or another path"
            )
        for path, thing in self._parts.items():
            places = self._places(thing)
            notes = _moved.get(id(thing), {}) | changes.get(path, {})
            for key, note in notes.items():
                owner = places[key][0] if key in places else vars(thing)
                put(owner, key, note)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Take note of what the run has moved, in case the same objects are used again."""
        for path, thing in self._parts.items():
            first, now = self._at_first[path], self._plain(thing)
            moved = {k: v for k, v in first.items() if not is_same(now.get(k), v)}
            if moved and id(thing) not in _moved:
                try:
                    weakref.finalize(thing, _moved.pop, id(thing), None)
                except TypeError:  # a list or dict, of which there is no telling when it is gone
                    continue
            if moved:
                _moved[id(thing)] = moved

    def _tell(self, what: str) -> None:
        if not self._is_told:
            self._is_told = True
            warnings.warn(
                f"checkpoint: expected state that can be saved, got {what}, {_ADVICE}",
                RuntimeWarning,
                stacklevel=4,
            )

    def _walk(self, roots: dict[str, object]) -> Iterator[tuple[str, object]]:
        """Yield all objects with values in them, each once, in the same order in every process."""
        seen: set[int] = set()
        waiting = list(reversed(roots.items()))
        while waiting:
            path, thing = waiting.pop()
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            places = self._places(thing)
            if not places:
                continue
            yield path, thing
            inner = [(f"{path}.{k}", v) for k, (_, v) in places.items() if not is_plain(v)]
            waiting.extend(reversed(inner))

    def _plain(self, thing: object) -> NotesByKey:
        return {k: written(v) for k, (_, v) in self._places(thing).items() if is_plain(v)}

    def _kept(self, thing: object) -> dict[Key, object]:
        """Return the values that cannot be saved and are compared by identity."""
        return {
            k: v
            for k, (_, v) in self._places(thing).items()
            if not is_plain(v) and not isinstance(v, _CODE) and package(type(v)) != "dubio"
        }

    def _places(self, thing: object) -> OwnedValues:
        """Return the values of an object that no state_dict has."""
        if isinstance(thing, nn.Module):
            return self._of_module(thing)
        if isinstance(thing, Optimizer):
            if id(thing) not in self._saved:
                return {}
            own = {k: v for k, v in vars(thing).items() if not k.startswith(_OF_OPTIMIZERS)}
            return _by_name(vars(thing), own, type(thing))
        if type(thing) in (dict, OrderedDict):
            assert isinstance(thing, dict)
            return {k: (thing, v) for k, v in thing.items() if isinstance(k, str | int)}
        if type(thing) in (list, deque, tuple):
            assert isinstance(thing, list | deque | tuple)
            return {k: (thing, v) for k, v in enumerate(thing)}  # type: ignore[misc]
        return _by_name(vars(thing), vars(thing), type(thing)) if _has_attributes(thing) else {}

    def _of_module(self, module: nn.Module) -> OwnedValues:
        own = {k: v for k, v in vars(module).items() if k not in _OF_MODULES}
        places = _by_name(vars(module), own, type(module))
        is_saved = id(module) in self._saved
        for name, buffer in module._buffers.items():
            if not is_saved or name in module._non_persistent_buffers_set:
                places[name] = module._buffers, buffer
        for name, parameter in {} if is_saved else module._parameters.items():
            places[name] = module._parameters, parameter
        return places | {name: (module._modules, m) for name, m in module._modules.items()}


def _by_name(owner: MutableMapping[Any, Any], own: Mapping[str, Any], kind: type) -> OwnedValues:
    """Attributes; of a library's class only plain ones, and of dubio's, which save all, none."""
    if package(kind) == "dubio":
        return {}
    known = is_library(kind)
    return {k: (owner, v) for k, v in own.items() if not known or is_plain(v)}


def _has_attributes(thing: object) -> bool:
    """Return whether it is an object of a class of the user's, with attributes that can be seen."""
    has = isinstance(getattr(thing, "__dict__", None), dict)
    return has and not isinstance(thing, _CODE) and not is_library(type(thing))
