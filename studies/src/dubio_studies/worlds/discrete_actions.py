"""Actions that are numbers 0, 1, …: what worlds accept."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def one_action(action: Any, count: int) -> int:
    """One of `count` actions."""
    array = np.asarray(action)
    if array.shape != () or array.dtype.kind not in "iu":
        got = repr(action) if array.shape == () else f"shape {array.shape}"
        raise TypeError(f"action: expected a whole number from 0 to {count - 1}, got {got}.")
    if not 0 <= array < count:
        raise ValueError(f"action: expected 0 to {count - 1}, got {action}.")
    return int(array)


def many_actions(actions: Any, worlds: int, count: int) -> NDArray[np.int64]:  # (N,)
    """One of `count` actions for each world."""
    array = np.asarray(actions)
    if array.shape != (worlds,):
        raise ValueError(f"actions: expected shape ({worlds},), got {array.shape}.")
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"actions: expected whole numbers from 0 to {count - 1}, got {array.dtype}."
        )
    if array.min() < 0 or array.max() >= count:
        wrong = array[(array < 0) | (array >= count)]
        raise ValueError(f"actions: expected 0 to {count - 1}, got {wrong[0]}.")
    return array.astype(np.int64)
