"""Threads that a network starts, where the noise context does not reach.

The noise of a pass, and what intercepts functions there, belong to the thread that runs the
network. Tensors do not: whoever works on a marked tensor, or on what is computed from it, is seen,
whatever the thread.
"""

import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from dubio.noise.modes import all_modules
from dubio.noise.sites import NOISE_MODULES, calls_at_work


class Lookout:
    """Notices work that is done to marked tensors in other threads than this one.

    Attributes:
        elsewhere: The thread and the module that were found there, if noise may get lost there.
    """

    def __init__(self) -> None:
        self.elsewhere: str | None = None
        self._thread = threading.get_ident()

    def mark(self, x: Any) -> Any:
        """Return a marked tensor with the same numbers; other things as they are."""
        if type(x) not in (Tensor, nn.Parameter) or x.layout != torch.strided:
            return x
        marked = Tensor._make_subclass(_Marked, x.detach())
        marked.lookout, marked.value = self, x
        return marked

    def note(self) -> None:
        """Something is done to a marked tensor."""
        if self.elsewhere is not None or threading.get_ident() == self._thread:
            return
        working: list[nn.Module] = [call.f_locals["self"] for call in calls_at_work()]
        if not working or not all(map(_is_quiet, all_modules(working[-1:]))):
            what = type(working[-1]).__name__ if working else "a function"
            self.elsewhere = f"{what} in {threading.current_thread().name}"

    def check(self) -> None:
        """Raise an error about what was found."""
        if self.elsewhere is not None:
            raise NotImplementedError(
                f"model: expected a network that computes in the thread that calls it, got one "
                f"that calls {self.elsewhere}, a thread that the noise does not reach; call its "
                f"parts one after the other"
            )


class _Marked(Tensor):
    """A tensor that tells its lookout when something is done to it."""

    lookout: Lookout
    value: Tensor

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Tell, and call the function; Python reads numbers of plain tensors only."""
        for leaf in args:
            if isinstance(leaf, _Marked):
                leaf.lookout.note()  # dropout in eval mode is no operation
        with torch._C.DisableTorchFunctionSubclass():
            return func(*(unmarked(args) if func in _LOOKS else args), **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Tell, and carry the operation out."""
        leaves = tree_leaves((args, kwargs))
        lookout = next(leaf.lookout for leaf in leaves if isinstance(leaf, _Marked))
        lookout.note()
        with torch._C._DisableTorchDispatch():
            out = func(*args, **(kwargs or {}))
        return tree_map(lookout.mark, out)


def _is_quiet(module: nn.Module) -> bool:
    """Return whether a module is one of torch's without noise; of others nothing is known."""
    return type(module).__module__.startswith("torch.nn.") and not isinstance(module, NOISE_MODULES)


_LOOKS = frozenset({Tensor.tolist, Tensor.numpy, Tensor.__array__})


def unmarked(x: Any) -> Any:
    """Return the same without marks."""
    return tree_map(lambda leaf: leaf.value if isinstance(leaf, _Marked) else leaf, x)
