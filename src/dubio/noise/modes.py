"""Train and eval flags while a network is sampled: eval, but for gates that hide dropout.

Sampling must not depend on the mode a network happens to be in, and BatchNorm must neither use nor
update the statistics of the batch. So every module runs in eval mode, except modules that would
then hide a dropout from us, as in ``if self.training: x = F.dropout(x)`` or
``scaled_dot_product_attention(..., dropout_p=self.dropout if self.training else 0)``; they run with
their own flag up, and only their own.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from weakref import WeakSet

from torch import nn

from dubio.noise.register import is_registered
from dubio.noise.sites import Site

_lock = threading.Lock()
_borrowed: dict[nn.Module, tuple[int, bool]] = {}  # module -> (users, its own flag)
_found_gates: WeakSet[nn.Module] = WeakSet()
_gated_methods: dict[type[nn.Module], list[set[str]]] = {}

_FUNCTIONS = frozenset(
    {"scaled_dot_product_attention", "dropout", "dropout1d", "dropout2d", "dropout3d"}
    | {"alpha_dropout", "feature_alpha_dropout", "feature_dropout"}
    | {"rand", "rand_like", "randn", "randn_like", "bernoulli", "bernoulli_", "uniform_", "normal_"}
)


@contextmanager
def sampling_mode(roots: Iterable[nn.Module], raised: set[nn.Module]) -> Iterator[None]:
    """Set the flags of all modules for sampling, and give them back however the block ends.

    Several threads may do so with the same modules: the flags return when the last one leaves.
    """
    modules = _modules(roots)
    with _lock:
        for module in modules:
            users, own = _borrowed.get(module, (0, module.training))
            _borrowed[module] = (users + 1, own)
        for module in modules:  # not before all are noted: some pass their flag on to others
            if module.training != (module in raised):
                _set_flag(module, module in raised)
    try:
        yield
    finally:
        with _lock:
            for module in modules:
                users, own = _borrowed.pop(module)
                if users > 1:
                    _borrowed[module] = (users - 1, own)
                elif module.training != own:
                    _set_flag(module, own)


def _set_flag(module: nn.Module, training: bool) -> None:
    if type(module).__setattr__ is nn.Module.__setattr__:  # which looks for tensors and modules
        object.__setattr__(module, "training", training)
    else:
        module.training = training


def gates(roots: Iterable[nn.Module]) -> set[nn.Module]:
    """Modules one of whose methods reads ``self.training`` next to noise of its own.

    Dropout submodules need no such help, nor do the modules of torch itself.
    """
    return {
        module
        for module in _modules(roots)
        if (methods := _methods_with_gates(type(module)))
        and not is_registered(module)
        and (
            module in _found_gates
            or any(any(_is_dropout(module, name, names) for name in names) for names in methods)
        )
    }


def _modules(roots: Iterable[nn.Module]) -> list[nn.Module]:
    """All modules, each once, like ``root.modules()`` but at a fraction of its time."""
    found: dict[nn.Module, None] = {}
    waiting = [*roots]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found[module] = None
            for part in module._modules.values():
                if part is not None:
                    waiting.append(part)
    return list(found)


def remember_gates(found: Iterable[nn.Module]) -> None:
    """Take note of modules that turned out to be gates."""
    _found_gates.update(found)


def missed_gates(roots: Iterable[nn.Module], sites: Iterable[Site]) -> set[nn.Module]:
    """Modules that read ``self.training`` and own a dropout module that was not reached."""
    reached = {site.module for site in sites}
    return {
        module
        for module in _modules(roots)
        if _methods_with_gates(type(module))
        and any(
            isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 and part not in reached
            for part in module.children()
        )
    }


def _methods_with_gates(kind: type[nn.Module]) -> list[set[str]]:
    """The names used in each method of a class that reads ``training``."""
    if kind not in _gated_methods:
        _gated_methods[kind] = _find_methods_with_gates(kind)
    return _gated_methods[kind]


def _find_methods_with_gates(kind: type[nn.Module]) -> list[set[str]]:
    if kind.__module__.startswith("torch.nn."):
        return []
    methods = [
        _names(getattr(method, "__code__", None))
        for ancestor in kind.__mro__
        if ancestor is not nn.Module and issubclass(ancestor, nn.Module)
        for method in vars(ancestor).values()
    ]
    return [names for names in methods if "training" in names]


def _is_dropout(module: nn.Module, name: str, names: set[str]) -> bool:
    """Whether a name stands for a dropout function or for the rate of one."""
    part = getattr(module, name, None) if "drop" in name else None
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return "p" in names  # self.dropout.p is passed on; self.dropout(x) would be no secret
    return (name in _FUNCTIONS and part is None) or isinstance(part, float)


def _names(code: CodeType | None) -> set[str]:
    """All global and attribute names in a piece of code, nested functions included."""
    if code is None:
        return set()
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
