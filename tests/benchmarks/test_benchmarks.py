"""Benchmarks of steps and noise run: what they call is not part of the public API."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dubio.native.library import LOADED

FOLDER = Path(__file__).parents[2] / "benchmarks"
COMMANDS = {
    "noise.py": ["--rounds", "1"],
    "bayes_step.py": ["--rounds", "1", "--threads", "1", "--widths", "16"],
    "step_memory.py": [],
}


@pytest.mark.skipif(LOADED is None, reason="they are about the compiled kernels")
@pytest.mark.parametrize("script", COMMANDS)
def test_benchmark_runs(script: str) -> None:
    finished = subprocess.run(
        [sys.executable, str(FOLDER / script), *COMMANDS[script]],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout
