"""Checks of arguments. Each says what was expected, what came and what to do."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Check: TypeAlias = Callable[[str, Any], Any]  # (name, value) -> the value as plain Python has it


def whole(least: int = 0, *, below: int | None = None, advice: str = "") -> Check:
    """Return a whole number from ``least``, numpy's among them; no bool."""
    span = f"from {least}" if below is None else f"from {least} to {below - 1}"

    def check(name: str, value: Any) -> int:
        fits = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not fits or value < least or (below is not None and value >= below):
            raise ValueError(_message(name, f"a whole number {span}", value, advice))
        return int(value)

    return check


def number(
    *, above: float = -math.inf, least: float = -math.inf, below: float = math.inf, advice: str = ""
) -> Check:
    """Return a finite number within bounds, numpy's among them; no bool and no string."""
    bounds = [
        words
        for words, given in (
            (f"above {above:g}", above > -math.inf),
            (f"of {least:g} or more", least > -math.inf),
            (f"below {below:g}", below < math.inf),
        )
        if given
    ]
    expected = " ".join(["a finite number", " and ".join(bounds)]).strip()

    def check(name: str, value: Any) -> int | float:
        real = isinstance(value, int | float | np.integer | np.floating)
        if isinstance(value, bool) or not real or not above < value < below or not value >= least:
            raise ValueError(_message(name, expected, value, advice))
        plain: int | float = value.item() if isinstance(value, np.generic) else value
        return plain

    return check


def one_of(*choices: str) -> Check:
    """Return one of some words."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(_message(name, f"one of {', '.join(choices)}", value, "choose one"))
        return value

    return check


SEED = whole(0, below=2**64, advice="0 will do; another number gives other weights and noise")


def check_attributes(owner: object, checks: Mapping[str, Check]) -> None:
    """Check attributes by name, and set them to what the checks return."""
    for name, check in checks.items():
        object.__setattr__(owner, name, check(name, getattr(owner, name)))


def _message(name: str, expected: str, value: Any, advice: str) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return f"{name}: expected {expected}, got {shown}; {advice or 'give such a number'}"
