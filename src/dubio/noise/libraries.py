"""Whether code belongs to a known library or to a user."""

import sys
from types import FunctionType
from typing import Any

from torch import nn

PYTHON = frozenset({*sys.stdlib_module_names} - {"__main__"})
_HEAP_TYPE = 1 << 9  # of the flags of a class: it was made by Python code


def package(thing: Any) -> str:
    """Return the package that a class or function comes from; empty if it is from none.

    What `exec` makes in a namespace without a name says that it is from ``builtins``, and is not.
    """
    name = (thing.__module__ or "").split(".", 1)[0]
    made = isinstance(thing, FunctionType) or (
        isinstance(thing, type) and bool(thing.__flags__ & _HEAP_TYPE)
    )
    return "" if name == "builtins" and made else name


def is_known(module: nn.Module) -> bool:
    """Return whether all code that runs when a module is called is torch's or dubio's."""
    return (
        package(type(module)) in ("torch", "dubio")
        and "forward" not in module.__dict__
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )
