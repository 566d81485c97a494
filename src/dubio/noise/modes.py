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

from torch import nn

_lock = threading.Lock()
_borrowed: dict[nn.Module, tuple[int, bool]] = {}  # module -> (users, its own flag)


@contextmanager
def sampling_mode(roots: Iterable[nn.Module], raised: set[nn.Module]) -> Iterator[None]:
    """Set the flags of all modules for sampling, and give them back however the block ends.

    Several threads may do so with the same modules: the flags return when the last one leaves.
    """
    modules = all_modules(roots)
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


def all_modules(roots: Iterable[nn.Module]) -> list[nn.Module]:
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
