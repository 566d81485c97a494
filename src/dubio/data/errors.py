"""Errors about data, and about missing packages to read them."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any


class DataError(Exception):
    """Raised if a file is missing, incomplete or damaged; the message says what to do."""


def folder_from(variable: str) -> Path | None:
    """Return the folder named by an environment variable; None if it is not set."""
    chosen = os.environ.get(variable)
    if not chosen:
        return None
    try:
        return Path(chosen).expanduser()
    except RuntimeError as error:  # ~somebody, whom nobody knows
        raise DataError(
            f"{variable}: expected a folder, got {chosen} ({error}); write the path without ~"
        ) from error


def unreadable(error: OSError) -> DataError:
    """Return an error for a file that cannot be read."""
    return DataError(
        f"{error.filename}: expected a file that can be read, got {error.strerror}; change who may "
        "read it and the folders around it, or set DUBIO_DATA or DUBIO_CACHE to another folder"
    )


def extra(module: str) -> Any:
    """Import a module of the extra ``data``, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"dubio.data: expected the package {package}, got none; pip install 'dubio[data]'"
        ) from error
