"""The stack of noise contexts of this task or thread.

Every task of asyncio and every thread has its own. Tasks take turns in one thread, so that their
noises are not left in the order in which they were entered.
"""

import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import FrameType
from typing import final

from dubio.noise.first_call import check_first_call
from dubio.noise.run import Pass, current_pass, put_in_charge

_CAN_PAUSE = CO_GENERATOR | CO_ASYNC_GENERATOR | CO_COROUTINE


@final
@dataclass(frozen=True, eq=False)
class _Entered:
    """A noise that was entered.

    Attributes:
        noise: What was entered.
        running: The pass that it is.
        outer: The pass that was in charge before.
        frame: The generator or coroutine that has entered it, if it was one.
        around: The generators and coroutines around that have entered noise before.
    """

    noise: object
    running: Pass
    outer: Pass | None
    frame: FrameType | None
    around: tuple[FrameType, ...]


_entered: ContextVar[tuple[_Entered, ...]] = ContextVar("entered", default=())


def enter(noise: object, running: Pass, frame: FrameType) -> None:
    """Put a pass in charge that the code in a frame has asked for."""
    can_pause = bool(frame.f_code.co_flags & _CAN_PAUSE)
    at_work = set(_at_work()) if can_pause else set()
    around = tuple(e.frame for e in _entered.get() if e.frame is not None and e.frame in at_work)
    mine = _Entered(noise, running, current_pass(), frame if can_pause else None, around)
    thread = threading.get_ident()

    def check() -> None:
        if running.is_over or threading.get_ident() != thread:
            raise RuntimeError(
                "expected a network that is called inside of `with noise`, got one that is called "
                "by a thread or task that has only begun there; enter the noise where the network "
                "is called"
            )
        if mine.frame is not None:
            _check_turns(mine)

    running.check = check
    running.at_first = check_first_call
    running.__enter__()
    _entered.set((*_entered.get(), mine))


def leave(noise: object, exception: object) -> None:
    """End the pass that this noise was entered for last; all others go on."""
    entered = _entered.get()
    position = max((k for k, e in enumerate(entered) if e.noise is noise), default=None)
    if position is None:
        raise RuntimeError(
            "expected a noise to be left by the thread or task that has entered it, got another; "
            "begin and end `with noise` in one function"
        )
    mine, later = entered[position], entered[position + 1 :]
    if later:
        later = (replace(later[0], outer=mine.outer), *later[1:])
    try:
        mine.running.__exit__()
    finally:
        mine.running.is_over = True
        put_in_charge(later[-1].running if later else mine.outer)
        _entered.set((*entered[:position], *later))
    if later and exception is None:
        raise RuntimeError(
            "expected the noise that was entered last to be left first, got one that was entered "
            f"before; {_ADVICE}"
        )


_ADVICE = (
    "leave a generator's `with noise` before another one is entered, or run generators to their "
    "ends one after the other, or make them tasks of asyncio, which have noise of their own"
)


def _check_turns(mine: _Entered) -> None:
    """Raise an error if the noise of another, paused generator is in force."""
    at_work = set(_at_work())
    if mine.frame in at_work:
        return
    for other in _entered.get():
        if other.frame in at_work and other.frame not in mine.around:
            raise RuntimeError(
                f"expected one generator inside of noise, got two that take turns; {_ADVICE}"
            )


def _at_work() -> Iterator[FrameType]:
    """Yield the calls at work, from the innermost on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
