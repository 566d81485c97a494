"""Delay Ctrl-C and SIGTERM until the end of a step."""

import os
import signal
import threading
from types import FrameType
from typing import Any, Self, final

_HELD_BACK = (signal.SIGINT, signal.SIGTERM)


@final
class Interrupt:
    """Holds the first Ctrl-C or SIGTERM back until the block asks; the second acts at once.

    A checkpoint from the middle of a step would not resume to the same numbers. Signals reach the
    main thread only, so elsewhere nothing is held back.

    Args:
        active: Whether to do so at all.

    Attributes:
        noted: The signal that is held back; None if there is none.
    """

    def __init__(self, active: bool) -> None:
        self._active = active and threading.current_thread() is threading.main_thread()
        self._before: dict[signal.Signals, Any] = {}
        self.noted: signal.Signals | None = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        before, self.noted = self.noted, signal.Signals(number)
        if before is not None:
            self.pass_on()

    def __enter__(self) -> Self:
        for number in _HELD_BACK if self._active else ():
            handler = signal.getsignal(number)
            ignored = number is signal.SIGTERM and handler in (signal.SIG_IGN, None)
            if not ignored:
                self._before[number] = signal.signal(number, self._note)
        return self

    def pass_on(self) -> None:
        """Let the signal that was held back act, if any: as a `KeyboardInterrupt`, or as it did."""
        if self.noted is signal.SIGTERM:
            self._give_back()
            self.noted = None
            os.kill(os.getpid(), signal.SIGTERM)
        elif self.noted is not None:
            raise KeyboardInterrupt

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._give_back()
        if kind is None or self.noted is signal.SIGTERM:
            self.pass_on()
