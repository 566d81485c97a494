"""Checks of parameters, made by `fit`: scikit-learn's constructors accept anything."""

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from torch import nn


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise a ValueError unless the value is one of some words."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name}: expected one of {listed}, got {value!r}; choose one of these")


def check_count(name: str, value: Any, advice: str, least: int = 1) -> None:
    """Raise an error unless the value is a whole number from ``least`` on."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}: expected a whole number >= {least}, got {value!r}; {advice}")
    if value < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, got {value}; {advice}")


def check_number(name: str, value: Any, low: float, high: float, advice: str) -> None:
    """Raise an error unless the value lies between two numbers, ends excluded."""
    wanted = f"a number > {low:g}" if math.isinf(high) else f"a number in ({low:g}, {high:g})"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}: expected {wanted}, got {value!r}; {advice}")
    if not low < float(value) < high:
        raise ValueError(f"{name}: expected {wanted}, got {value}; {advice}")


def check_flag(name: str, value: Any) -> None:
    """Raise a TypeError unless the value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, got {value!r}; pass one of the two")


def check_layers(name: str, value: Any) -> tuple[int, ...]:
    """Return the sizes of hidden layers: whole numbers, or one of them."""
    sizes = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    sizes = tuple(sizes)
    for size in sizes:
        check_count(name, size, "give the units of each hidden layer, such as (100, 100)")
    return tuple(map(int, sizes))


def check_module(module: Callable[..., Any] | None) -> None:
    """Raise a TypeError unless it can make networks."""
    if isinstance(module, nn.Module) or not (module is None or callable(module)):
        raise TypeError(
            "module: expected a function of (n_features, n_outputs) that makes an nn.Module, got "
            f"{type(module).__name__}; every fit and every member needs a network of its own"
        )
