"""The last interactions, to learn from: a ring buffer."""

from typing import Any, final

import torch
from torch import Tensor


@final
class Experience:
    """The last ``size`` rows of network inputs and targets; further ones replace the oldest.

    Args:
        size: How many rows are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._x: Tensor | None = None  # (size, ...)
        self._y: Tensor | None = None  # (size, 3)
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, x: Tensor, y: Tensor) -> None:
        """Keep further rows."""
        skipped = max(0, len(x) - self._size)  # more than can be kept
        x, y = x[skipped:], y[skipped:]
        if self._x is None or self._y is None:
            self._x = x.new_zeros((self._size, *x.shape[1:]))
            self._y = y.new_zeros((self._size, *y.shape[1:]))
        first = self._next + skipped
        places = torch.arange(first, first + len(x), device=x.device) % self._size
        self._x[places] = x
        self._y[places] = y
        self._next = (first + len(x)) % self._size
        self._count = min(self._count + len(x), self._size)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return some rows, by their places among all that are kept."""
        assert self._x is not None
        assert self._y is not None
        rows = rows.to(self._x.device)
        return self._x.index_select(0, rows), self._y.index_select(0, rows)

    def state(self) -> dict[str, Any]:
        """Return what to save."""
        kept = slice(0, self._count)
        x, y = (None if t is None else t[kept].clone() for t in (self._x, self._y))
        return {"x": x, "y": y, "next": self._next}

    def load(self, state: dict[str, Any], device: torch.device) -> None:
        """Go on from a saved state."""
        self._x = self._y = None
        self._next = self._count = 0
        if state["x"] is not None:
            self.add(state["x"].to(device), state["y"].to(device))
        self._next = state["next"]
