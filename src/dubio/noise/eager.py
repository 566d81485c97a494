"""Run compiled networks as their Python code, so that it can be intercepted."""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

_lock = threading.Lock()
_users = 0
_stance = ExitStack()


@contextmanager
def without_compilation() -> Iterator[None]:
    """Run compiled parts of a network as the Python code they came from.

    The compiler's stance belongs to the process, so it is set by the first of several threads and
    given back by the last. If the compiler was never imported there is nothing compiled.
    """
    global _users
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with _lock:
        if _users == 0:
            _stance.enter_context(torch.compiler.set_stance("force_eager"))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _stance.close()
