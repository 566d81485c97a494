"""Checks of integer arguments."""

from operator import index
from typing import SupportsIndex

from torch import Tensor


def check_count(count: int, least: int, name: str, advice: str) -> None:
    """Raise an error unless this is a whole number that is large enough."""
    whole = isinstance(count, SupportsIndex) and not isinstance(count, bool | Tensor)
    if not whole or index(count) < least:
        raise ValueError(
            f"{name}: expected a whole number, at least {least}, got {count!r}; {advice}"
        )
