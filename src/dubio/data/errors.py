"""What can be wrong with data, and what can be missing to read them."""

from importlib import import_module
from typing import Any


class DataError(Exception):
    """A file is missing, incomplete or damaged; the message names it and says what to do."""


def extra(module: str) -> Any:
    """Import a module of the extra ``data``, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"dubio.data: expected the package {package}, got none; pip install 'dubio[data]'"
        ) from error
