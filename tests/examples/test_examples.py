"""Every example runs on its own and stays short."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, timeout=600
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80


def test_there_are_examples() -> None:
    assert EXAMPLES
