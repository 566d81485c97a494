"""A progress bar for a terminal, in a few lines and without a dependency."""

import sys
import time
from typing import Self

_PATIENCE = 1.0  # seconds of work before a bar is worth showing
_WIDTH = 24


class Progress:
    """Shows how much of a long piece of work is done and how long the rest will take.

    Silent when standard error is not a terminal.

    Args:
        label: What is being done.
        total: How many steps there are, or None if nobody knows.
    """

    def __init__(self, label: str, total: int | None) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._start = self._shown = time.monotonic()
        self._visible = False

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Advance the bar, and show a note after it."""
        self._done += steps
        now = time.monotonic()
        if now - self._start > _PATIENCE and now - self._shown > 0.1 and sys.stderr.isatty():
            self._shown = now
            self._visible = True
            sys.stderr.write(f"\r\x1b[2K{self._line(now - self._start)} {note}".rstrip())
            sys.stderr.flush()

    def _line(self, seconds: float) -> str:
        if not self._total:
            return f"{self._label} {self._done} [{_clock(seconds)}]"
        share = min(self._done / self._total, 1.0)
        bar = ("━" * round(share * _WIDTH)).ljust(_WIDTH, "╌")
        left = seconds / share - seconds
        return f"{self._label} {bar} {share:4.0%} [{_clock(seconds)} < {_clock(left)}]"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._visible:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
