"""Every public name has a docstring and an entry in docs/reference."""

import ast
import importlib
import inspect
import re
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dubio

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)
NAMESPACES = [
    "dubio.calibrate",
    "dubio.conversion.rules",
    "dubio.data",
    "dubio.decide",
    "dubio.estimators",
    "dubio.evaluation",
    "dubio.likelihoods",
    "dubio.masks",
    "dubio.metrics",
    "dubio.priors",
    "dubio.recommend",
    "dubio.regression",
]
WITHOUT_LIST = ["dubio.attack", "dubio.metrics.plots", "dubio.objectives.schedules"]
ENTRIES = {name for page in REFERENCE.glob("*.md") for name in ENTRY.findall(page.read_text())}


def public_names() -> list[tuple[str, Any]]:
    """Qualified names as a reader writes them, and what they are."""
    found = [(f"dubio.{name}", getattr(dubio, name)) for name in dubio.__all__]
    for space in NAMESPACES:
        module = importlib.import_module(space)
        found += [(f"{space}.{name}", getattr(module, name)) for name in module.__all__]
    for space in WITHOUT_LIST:
        module = importlib.import_module(space)
        found += [
            (f"{space}.{name}", value)
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == space
        ]
    return found


NAMES = dict(public_names())


@pytest.mark.parametrize("name", NAMES)
def test_public_name_has_a_docstring(name: str) -> None:
    value = NAMES[name]
    if isinstance(value, type | ModuleType) or inspect.isroutine(value):
        said = inspect.getdoc(value)
        own = not is_dataclass(value) or not str(said).startswith(f"{value.__name__}(")
        assert said, "expected a docstring"
        assert own, "expected a docstring, not the one that dataclasses make"
    else:
        assert described(name.rsplit(".", 1)[1]), "expected a string below the assignment"


def described(name: str) -> bool:
    """Whether some module of the library assigns the name with a docstring below."""
    for path in (ROOT / "src" / "dubio").rglob("*.py"):
        if name not in (text := path.read_text(encoding="utf-8")):
            continue
        body = ast.parse(text).body
        for statement, below in pairwise(body):
            targets = (
                [statement.target] if isinstance(statement, ast.AnnAssign)
                else statement.targets if isinstance(statement, ast.Assign) else []
            )  # fmt: skip
            assigned = any(isinstance(t, ast.Name) and t.id == name for t in targets)
            if assigned and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_public_name_has_an_entry(name: str) -> None:
    if isinstance(NAMES[name], ModuleType):  # by its members
        return
    name = name.replace("dubio.objectives.schedules", "dubio.schedules")
    space, short = name.rsplit(".", 1)
    both = f"{name}.{short}"  # a function in a module of its own name
    assert {name, space, both} & ENTRIES, f"add a line '::: {name}' to a page of {REFERENCE}"


def test_entries_exist() -> None:
    for entry in ENTRIES - set(NAMES):
        space, _, name = entry.rpartition(".")
        if space.startswith("dubio.bridges."):
            path = ROOT / "src" / f"{space.replace('.', '/')}.py"
            assert f"class {name}(" in path.read_text(encoding="utf-8"), entry
        elif entry.startswith("dubio.schedules."):
            assert hasattr(dubio.schedules, name), entry
        else:
            try:
                importlib.import_module(entry)
            except ImportError:
                assert hasattr(importlib.import_module(space), name), entry
