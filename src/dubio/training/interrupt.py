"""Ctrl-C between two steps instead of in the middle of one."""

import signal
import threading
from types import FrameType
from typing import Self, final


@final
class Interrupt:
    """Holds the first Ctrl-C back until the block asks; the second acts at once.

    A checkpoint from the middle of a step would not resume to the same numbers. Signals reach the
    main thread only, so elsewhere nothing is held back.

    Args:
        active: Whether to do so at all.
    """

    def __init__(self, active: bool) -> None:
        self._active = active and threading.current_thread() is threading.main_thread()
        self.noted = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted:
            raise KeyboardInterrupt
        self.noted = True

    def __enter__(self) -> Self:
        if self._active:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def pass_on(self) -> None:
        """Raise the `KeyboardInterrupt` that was held back, if any."""
        if self.noted:
            raise KeyboardInterrupt

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)
        if kind is None:
            self.pass_on()
