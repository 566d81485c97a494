"""Calls of an agent by several threads, one after the other."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


class TakesTurns(Protocol):
    """What has a lock for its calls."""

    @property
    def _turn(self) -> AbstractContextManager[Any]: ...


A = TypeVar("A", bound=TakesTurns)


def in_turn(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
    """A method that waits until no other thread is in one, and whose tensors can be trained on."""

    @wraps(method)
    def waiting(self: A, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._turn, torch.inference_mode(False):
            return method(self, *args, **kwargs)

    return waiting
