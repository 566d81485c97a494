"""The first call of a network inside of noise: its noise must be within reach.

A network that has threads of its own compute parts of it would lose the noise there. So it is run
once on marked tensors, unless it is made of nothing but torch's modules.
"""

import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.random import fork_rng
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map
from torch.utils.hooks import RemovableHandle

from dubio.noise.libraries import is_known
from dubio.noise.modes import all_modules
from dubio.noise.numbers import Numbers
from dubio.noise.run import Pass, current_pass, no_gradients, outside_of_passes, run_pass
from dubio.noise.sites import outermost_call
from dubio.noise.threads import Lookout
from dubio.noise.upkeep import Upkeep

_NUMBERS = Numbers(0, range(1), shared=False)
_within_reach: WeakSet[nn.Module] = WeakSet()


def check_threads(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Complain about a network that has other threads compute something noisy.

    It is looked at once. What it does then leaves no trace.
    """
    if model in _within_reach:
        return
    modules = all_modules([model])
    if not all(map(is_known, modules)):
        lookout = Lookout()
        given = tree_map(lookout.mark, (args, kwargs))
        running = Pass(_NUMBERS, roots=None, watching=True)
        upkeep = Upkeep(modules, rewind=True)
        with suppress(Exception), no_gradients(), fork_rng(devices=[]):
            # errors are told by the pass that somebody waits for
            run_pass(lambda: model(*given[0], **given[1]), running, around=[upkeep])
        lookout.check()
    _within_reach.add(model)


def watch_first_call(running: Pass) -> RemovableHandle:
    """Check the first network that is called in a pass."""
    thread = threading.get_ident()

    def look(module: nn.Module, args: Any) -> None:
        if threading.get_ident() != thread:
            if current_pass() is running and running.check is not None:
                running.check()  # a thread that has inherited the pass, and not what intercepts
            return
        handle.remove()
        call = outermost_call()
        if call is not None:
            with outside_of_passes(), _disable_current_modes():
                check_threads(*call)

    handle = register_module_forward_pre_hook(look)
    return handle
