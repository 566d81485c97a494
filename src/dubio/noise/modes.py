"""Train and eval flags while a network is sampled: eval, but for gates that hide dropout.

Sampling must not depend on the mode a network happens to be in, and BatchNorm must neither use nor
update the statistics of the batch. So every module runs in eval mode, except modules that would
then hide a dropout from us, as in ``if self.training: x = F.dropout(x)`` or
``scaled_dot_product_attention(..., dropout_p=self.dropout if self.training else 0)``; they see
their own flag up, and only their own.

A raised flag is a matter of the thread that runs the network. Others, who may call the same network
meanwhile, see it as it is.
"""

import sys
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import getattr_static
from types import FrameType
from typing import Any

import torch
from torch import nn

_lock = threading.Lock()
_borrowed: dict[nn.Module, tuple[int, bool]] = {}  # module -> (users, its own flag)
_raised: ContextVar[frozenset[nn.Module]] = ContextVar("raised", default=frozenset())
_read: ContextVar[dict[nn.Module, None] | None] = ContextVar("read", default=None)


@contextmanager
def sampling_mode(roots: Iterable[nn.Module], raised: Collection[nn.Module]) -> Iterator[None]:
    """Eval mode for all modules but those that are raised; all as before however the block ends.

    Several threads may do so with the same modules: the flags return when the last one leaves.
    """
    modules = all_modules(roots)
    with raising(()), _lock:
        for module in modules:
            users, own = _borrowed.get(module, (0, module.training))
            _borrowed[module] = (users + 1, own)
        for module in modules:  # not before all are noted: some pass their flag on to others
            if module.training:
                _set_flag(module, False)
    try:
        with raising(raised):
            yield
    finally:
        with raising(()), _lock:
            for module in modules:
                users, own = _borrowed.pop(module)
                if users > 1:
                    _borrowed[module] = (users - 1, own)
                elif module.training != own:
                    _set_flag(module, own)


@contextmanager
def raising(modules: Collection[nn.Module]) -> Iterator[None]:
    """Show the flags of these modules up, and those of all others as they are, to this thread."""
    _install({type(module) for module in modules})
    token = _raised.set(frozenset(modules))
    try:
        yield
    finally:
        _raised.reset(token)


@contextmanager
def noting_reads(modules: Iterable[nn.Module]) -> Iterator[dict[nn.Module, None]]:
    """Note whose flags code reads that is not torch's, in this thread, however it comes by them."""
    installed = _install({type(module) for module in modules})
    read: dict[nn.Module, None] = {}
    token = _read.set(read)
    try:
        yield read
    finally:
        _read.reset(token)
        needed = {type(module) for module in read}
        for kind in installed:
            if kind not in needed:
                _remove(kind)


def _install(kinds: Iterable[type[nn.Module]]) -> list[type[nn.Module]]:
    """Put flags onto classes that have none."""
    new = [k for k in kinds if not isinstance(getattr_static(k, "training", None), _Flag)]
    for kind in new:
        kind.training = _Flag(kind)  # type: ignore[assignment]
    return new


def _remove(kind: type[nn.Module]) -> None:
    flag = kind.__dict__.get("training")
    if isinstance(flag, _Flag):
        if flag.before is None:
            del kind.training
        else:
            kind.training = flag.before


class _Flag:
    """``training`` of a class of modules: up for those that are raised, else what it was.

    It stays with the class for good, where it makes no difference: to come and go would take the
    interpreter's memory of the class with it each time.
    """

    def __init__(self, kind: type[nn.Module]) -> None:
        self.before: Any = kind.__dict__.get("training")
        self._own: Any = getattr_static(kind, "training", None)  # a property, perhaps

    def __get__(self, module: nn.Module | None, kind: type | None = None) -> Any:
        if module is None:
            return self
        if not torch.compiler.is_dynamo_compiling():
            read = _read.get()
            if read is not None and not _is_torchs(sys._getframe(1)):
                read[module] = None
            if module in _raised.get():
                return True
        if hasattr(type(self._own), "__get__"):
            return self._own.__get__(module, kind)
        return module.__dict__["training"]

    def __set__(self, module: nn.Module, value: bool) -> None:
        if hasattr(type(self._own), "__set__"):
            self._own.__set__(module, value)
        else:
            module.__dict__["training"] = value


def _is_torchs(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(("torch.", "dubio."))


def _set_flag(module: nn.Module, training: bool) -> None:
    if type(module).__setattr__ is nn.Module.__setattr__:  # which looks for tensors and modules
        object.__setattr__(module, "training", training)
    else:
        module.training = training


def all_modules(roots: Iterable[nn.Module]) -> list[nn.Module]:
    """Return all modules, each once, like ``root.modules()`` but at a fraction of its time."""
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
