"""From ``package.module:function`` or ``file.py:function`` to a network.

The function is the user's own code and is run, as Python runs it.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from dubio.evaluation.errors import EvaluationError


def build_network(path: str) -> nn.Module:
    """Build a network by calling the function at a path without arguments.

    Args:
        path: ``package.module:function``, looked up in the current folder first, or
            ``file.py:function``.
    """
    network = _find_function(path)()
    if not isinstance(network, nn.Module):
        raise EvaluationError(
            f"model: expected {path} to return an nn.Module, got {type(network).__name__}; make it "
            "return the network whose state was saved"
        )
    return network


def _find_function(path: str) -> Callable[[], Any]:
    place, _, name = path.rpartition(":")
    if not place or not name.isidentifier():
        raise EvaluationError(
            f"model: expected package.module:function or file.py:function, got {path!r}; name the "
            "function that builds the network, behind a colon"
        )
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    found = getattr(module, name, None)
    if not callable(found):
        names = [name for name, value in vars(module).items() if _is_function_of(module, value)]
        raise EvaluationError(
            f"model: expected a function {name} in {place}, got "
            f"{'none' if found is None else type(found).__name__}; there are: "
            f"{', '.join(names) or 'no functions'}"
        )
    return found  # type: ignore[no-any-return]


def _import_module(name: str) -> ModuleType:
    _search(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks another
        raise EvaluationError(
            f"model: expected a module {name}, got none ({error}); run from its folder, "
            "install it, or name a file.py"
        ) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise EvaluationError(f"model: expected a Python file, got {path}, which does not exist")
    _search(path.resolve().parent)  # as Python does for a file that it runs
    spec = importlib.util.spec_from_file_location(f"_dubio_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _is_function_of(module: ModuleType, value: object) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__
