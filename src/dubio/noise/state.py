"""What modules keep from one pass to the next: a hidden state, a cache, a counter.

All draws of a network are to start from the same state, and a pass that only looks at the network
must leave none behind.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dubio.noise.libraries import package
from dubio.noise.modes import all_modules

_Result = TypeVar("_Result")
_CONTAINERS = (list, dict, set, OrderedDict, deque)
_MOST = 2**22  # entries of a tensor; larger ones are taken for constants
_LIBRARIES = ("torch", "dubio", "numpy", "builtins")


@final
class State:
    """The attributes of a network's modules as they are now, and what lies in them.

    Torch's modules and dubio's keep nothing in forward. Parameters and large tensors are left out
    (`dubio.noise.gates` sees to networks that write into them), and so are modules that make parts
    of themselves in their first pass: those are there to stay.
    """

    def __init__(self, roots: Sequence[nn.Module]) -> None:
        self._contents: list[tuple[Any, Any]] = []  # containers, and copies of them
        self._tensors: list[tuple[Tensor, int, Tensor]] = []  # with their versions and copies
        self._modules: list[tuple[nn.Module, list[tuple[Any, Any]], list[object]]] = []
        seen: set[int] = set()
        for module in all_modules(roots):
            if _may_keep_state(type(module)):
                self._contents = []
                self._note(vars(module), seen)
                self._modules.append((module, self._contents, _parts(module)))

    def put_back(self) -> None:
        """Bring the network back into this state."""
        for container, content in self._changeable():
            if not _unchanged((container, content)):
                _fill(container, content)
        with torch.no_grad():
            for tensor, version, content in self._tensors:
                if tensor._version != version:
                    tensor.copy_(content)

    def _changeable(self) -> list[tuple[Any, Any]]:
        return [
            pair
            for module, contents, parts in self._modules
            if list(map(id, _parts(module))) == list(map(id, parts))
            for pair in contents
        ]

    def _note(self, thing: Any, seen: set[int]) -> None:
        if id(thing) in seen or isinstance(thing, nn.Module | nn.Parameter):
            return
        seen.add(id(thing))
        if isinstance(thing, Tensor):
            small = thing.layout == torch.strided and not _is_large(thing)
            if small and not thing.is_inference():
                self._tensors.append((thing, thing._version, thing.detach().clone()))
        elif type(thing) in _CONTAINERS:
            self._contents.append((thing, thing.copy()))
            for part in thing.values() if isinstance(thing, dict) else list(thing):
                self._note(part, seen)
        elif _may_keep_state(type(thing)) and hasattr(thing, "__dict__") and not callable(thing):
            self._note(vars(thing), seen)


def from_state(state: State, run: Callable[[], _Result], roots: Sequence[nn.Module]) -> _Result:
    """Run a network from a state, and leave it in the one that it is in now."""
    now = State(roots)
    state.put_back()
    try:
        return run()
    finally:
        now.put_back()


def holds_much(module: nn.Module) -> bool:
    """Whether a module holds a tensor that is too large to be copied, and may write into it."""
    return _may_keep_state(type(module)) and any(map(_is_large, _tensors_of(module)))


def kept_in_place(module: nn.Module) -> list[Tensor]:
    """The tensors of a module that `State` does not copy: parameters, and large ones."""
    parameters = [x for x in module._parameters.values() if x is not None]
    return [*parameters, *filter(_is_large, _tensors_of(module))]


def _tensors_of(module: nn.Module) -> list[Tensor]:
    things = (*module._buffers.values(), *vars(module).values())
    return [x for x in things if isinstance(x, Tensor)]


def _is_large(x: Tensor) -> bool:
    return not is_lazy(x) and x.numel() > _MOST


def _may_keep_state(kind: type) -> bool:
    return package(kind) not in _LIBRARIES


def _parts(module: nn.Module) -> list[object]:
    return [*module._parameters.values(), *module._modules.values()]


def _unchanged(pair: tuple[Any, Any]) -> bool:
    container, content = pair
    if len(container) != len(content):
        return False
    if isinstance(container, dict):
        return all(
            name in container and container[name] is value
            for name, value in content.items()
            if name != "training"
        )
    if isinstance(container, set):
        return bool(container == content)
    return all(a is b for a, b in zip(container, content, strict=True))


def _fill(container: Any, content: Any) -> None:
    flag = container.get("training") if isinstance(container, dict) else None
    container.clear()
    if isinstance(container, dict | set):
        container.update(content)
    else:
        container.extend(content)
    if flag is not None:
        container["training"] = flag
