"""The first call of a network inside of noise: its noise must be within reach.

A network that has threads of its own compute parts of it would lose the noise there. So it is run
once on marked tensors, if its code mentions threads.
"""

from contextlib import suppress
from typing import Any
from weakref import WeakSet

from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from dubio.noise.generators import unmoved
from dubio.noise.modes import all_modules
from dubio.noise.numbers import Numbers
from dubio.noise.own_threads import may_start_threads
from dubio.noise.run import Pass, no_gradients, outside_of_passes, run_pass
from dubio.noise.sites import outermost_call
from dubio.noise.threads import Lookout
from dubio.noise.upkeep import Upkeep

_NUMBERS = Numbers(0, range(1), shared=False)
_within_reach: WeakSet[nn.Module] = WeakSet()


def check_threads(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an error for a network that computes something noisy in other threads.

    It is looked at once. What it does then leaves no trace.
    """
    if model in _within_reach:
        return
    modules = all_modules([model])
    if may_start_threads(modules):
        lookout = Lookout()
        given = tree_map(lambda x: lookout.mark(_copied(x)), (args, kwargs))
        running = Pass(_NUMBERS, roots=None, watching=True)
        upkeep = Upkeep(modules, rewind=True)
        with suppress(Exception), no_gradients(), unmoved():
            # errors are told by the pass that somebody waits for
            run_pass(lambda: model(*given[0], **given[1]), running, around=[upkeep])
        lookout.check()
    _within_reach.add(model)


def _copied(x: Any) -> Any:
    """Return a tensor of its own, in case the network writes over its inputs."""
    return x.detach().clone() if isinstance(x, Tensor) else x


def check_first_call() -> bool:
    """Check the network that calls a torch function; whether there is one."""
    call = outermost_call()
    if call is None:
        return False
    with outside_of_passes(), _disable_current_modes():
        check_threads(*call)
    return True
