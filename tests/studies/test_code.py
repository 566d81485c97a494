"""Rows say which code made them: fingerprints, and what pages say of rows that are older."""

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import practice
from dubio_studies.framework import code
from dubio_studies.framework.code import fingerprint
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.running import run
from dubio_studies.report.pages import study_page
from dubio_studies.report.results import Shown, look

PACKAGE = "fingerprinted"
COMPUTATION = '''"""A study."""
from fingerprinted import parts
from fingerprinted.parts import number

def run(config, piece, seed):
    """Compute."""
    if not piece:
        raise ValueError("piece: expected one.")
    return number() + 1

def pieces(config):
    return [{"split": 1}]

DEVIATIONS = ("Where it departs.",)
COMPUTATION = dict(protocol="What is done.", run=run, deviations=DEVIATIONS)
'''
PARTS = '''"""Parts."""
from fingerprinted import computation  # circles end

def number():
    return 2  # two
'''

Take = Callable[..., str]


@pytest.fixture
def take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Take]:
    """Take the fingerprint of a study with these files."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def taken(computation: str = COMPUTATION, parts: str = PARTS) -> str:
        (folder / "computation.py").write_text(computation)
        (folder / "parts.py").write_text(parts)
        code._of_module.cache_clear()

        def study() -> None: ...

        study.__module__ = f"{PACKAGE}.computation"
        importlib.invalidate_caches()
        return fingerprint(study)

    yield taken
    code._of_module.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Compute.", "Compute it."),
        ("expected one", "expected a piece"),
        ("What is done", "What is computed"),
        ("Where it departs", "Where it differs"),
        ("+ 1\n", "+ 1  # one more\n\n"),
        ('[{"split": 1}]', '[{"split": 1}, {"split": 2}]'),
    ],
)
def test_prose_and_lists_of_pieces_do_not_count(take: Take, old: str, new: str) -> None:
    assert old in COMPUTATION
    assert take(COMPUTATION.replace(old, new)) == take()


def test_numbers_count_also_in_modules_that_are_imported(take: Take) -> None:
    now = take()
    assert take(COMPUTATION.replace("+ 1", "+ 3")) != now
    assert take(parts=PARTS.replace("return 2", "return 5")) != now
    assert take() == now
    assert len(now) == 8


def shown(root: Path) -> Shown:
    found = look(practice.ENTRY, root, [])
    assert found.shown is not None
    return found.shown


def test_rows_are_told_from_those_of_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = practice.STUDY
    made = run(study, "smoke", study.computation.scales["smoke"], root=tmp_path)
    assert {row["code"] for row in made.rows} == {fingerprint(study.computation.run)}
    current = shown(tmp_path)
    assert current.code == "today's"
    silent = Rows([{k: v for k, v in row.items() if k != "code"} for row in current.rows])
    assert replace(current, rows=silent).code == "unknown"
    mixed = Rows([{**current.rows[0], "code": "00000000"}, *current.rows[1:]])
    assert replace(current, rows=mixed).code == "earlier"
    result = look(practice.ENTRY, tmp_path, [])
    assert "earlier version" not in study_page(result, current)
    assert "Made by an earlier version" in study_page(result, replace(current, rows=mixed))
    assert made.rows.comparable() == mixed.comparable()
