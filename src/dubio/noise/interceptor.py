"""The interceptor: sees every torch function that a network calls, for noise that is not dubio's.

It works on networks as they are, in train or eval mode: `F.dropout` and its relatives go through
``__torch_function__`` whoever calls them, so a dropout counts wherever it stands. What happens at
each function is written in `dubio.noise.handlers`.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol

from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
)

Function = Callable[..., Any]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]


class Running(Protocol):
    """The interface of a pass for the interceptor."""

    @property
    def in_charge(self) -> bool:
        """Whether it is the innermost pass at work."""
        ...

    def call(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        """Call a torch function that is not to be intercepted again."""
        ...


# (the pass, the function, its arguments) -> what stands for its result
Handler = Callable[[Any, Function, Args, Kwargs], Any]

HANDLERS: dict[Function, Handler] = {}


def handles(*functions: Function) -> Callable[[Handler], Handler]:
    """Enter a handler for some torch functions."""

    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(functions, handler))
        return handler

    return enter


def transparent(function: Function) -> Function:
    """Return the same Python function, but with its inner torch calls visible to the interceptor.

    Functions of `torch.nn.functional` hand themselves over whole to an active interceptor as their
    first step; here they are told that there is none, and so reach their inner calls.
    """
    assert isinstance(function, FunctionType)
    unaware = {
        name: (lambda *args: False)
        for name in (
            "has_torch_function",
            "has_torch_function_unary",
            "has_torch_function_variadic",
        )
    }
    return FunctionType(
        function.__code__,
        {**function.__globals__, **unaware},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


class Interceptor(TorchFunctionMode):
    """Sends every torch function to its handler, or lets it be called as it is."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        self._running = running

    def __exit__(self, *exception: object) -> None:
        """Leave the stack of the thread, from under those that other tasks have put there."""
        modes = _get_current_function_mode_stack()
        for _ in modes:
            _pop_mode()
        for mode in modes:
            if mode is not self:
                _push_mode(mode)
        if self not in modes:
            raise RuntimeError(
                "expected noise to be active until its block ends, got none: another context of "
                "torch, such as torch.device, was left by another task in between and took it "
                "away; do not `await` inside such a context"
            )

    def __torch_function__(
        self, func: Function, types: Any, args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        """Handle a torch function that was called."""
        if not self._running.in_charge:  # an inner pass, or none, is
            return func(*args, **(kwargs or {}))
        handler = HANDLERS.get(func)
        if handler is None:
            return self._running.call(func, args, kwargs or {})
        return handler(self._running, func, args, kwargs or {})
