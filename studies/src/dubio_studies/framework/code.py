"""Which code makes the rows of a study: a fingerprint of what it computes with."""

import ast
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FRAMEWORK = __package__  # runs and stores; it changes no number
PROSE = frozenset({"protocol", "deviations"})  # of a Computation, or constants of that name
STORED = frozenset({"scales"})  # of a Computation: the settings, which every run stores
ASIDE = frozenset({"pieces", "__post_init__"})  # functions that list the pieces, refuse settings


def fingerprint(run: Callable[..., Any]) -> str:
    """Return eight hexadecimal digits that stand for the code behind a study's ``run``.

    It covers the module of ``run`` and the modules of the same distribution that it imports, and so
    on, but for the framework. Comments, docstrings, messages of errors and texts for pages do not
    count, nor do the settings of scales, which a run stores, functions named ``pieces``, which only
    list them, and ``__post_init__``, which only refuses settings. Changes of the library are told
    by its version, which rows have too.
    """
    return _of_module(run.__module__)


@cache
def _of_module(start: str) -> str:
    known: dict[str, str] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in known or name == FRAMEWORK or name.startswith(f"{FRAMEWORK}."):
            continue
        path = _source(name)
        if path is None:
            continue
        tree = ast.parse(path.read_bytes())
        known[name] = repr(_shape(tree))
        waiting += [
            found for found in _imports(tree) if _distribution(found) == _distribution(start)
        ]
    return hashlib.sha256(repr(sorted(known.items())).encode()).hexdigest()[:8]


def _distribution(module: str) -> str:
    return module.partition(".")[0]


def _source(module: str) -> Path | None:
    """The file of a module, which is not run; None if this is the name of something else."""
    root, *parts = module.split(".")
    spec = find_spec(root)
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin)
    if not parts:
        return home
    place = home.parent.joinpath(*parts)
    files = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Modules that may be imported; some are names inside of modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _shape(node: Any) -> Any:
    """What a piece of code does, in a form that is the same for every Python."""
    if isinstance(node, list):
        return [_shape(each) for each in node if not _is_aside(each)]
    if isinstance(node, ast.Raise):
        return "raise"
    if isinstance(node, ast.AST):
        fields = ((name, _shape(value)) for name, value in ast.iter_fields(node))
        return type(node).__name__, [pair for pair in fields if pair[1] not in (None, [])]
    return node


def _is_aside(node: Any) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in ASIDE
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.Assign):
        return all(isinstance(t, ast.Name) and t.id.lower() in PROSE for t in node.targets)
    return isinstance(node, ast.keyword) and node.arg in PROSE | STORED
