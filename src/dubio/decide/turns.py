"""Calls of an agent by several threads, one after the other."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, final

import torch

P = ParamSpec("P")
R = TypeVar("R")


@final
class Turn:
    """The turn of one thread; the thread that has it may take it again. A copy is free."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Turn"], tuple[()]]:
        return Turn, ()


class TakesTurns(Protocol):
    """An object whose calls take turns."""

    _turn: Turn


A = TypeVar("A", bound=TakesTurns)


def in_turn(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
    """Return a method that waits until no other thread is in one."""

    @wraps(method)
    def waiting(self: A, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._turn, torch.inference_mode(False):
            return method(self, *args, **kwargs)

    return waiting
