"""A run that is killed by SIGKILL, at any moment, and called again gives the same numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dubio
import killed_runs


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_same_weights_history_and_random_state(tmp_path: Path) -> None:
    """All scenarios in one process that forks, since most of the time is that of imports."""
    finished = subprocess.run(
        [sys.executable, killed_runs.__file__, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(Path(dubio.__file__).parents[1])},
    )
    assert finished.returncode == 0, finished.stderr
    outcomes = json.loads(finished.stdout)
    outcomes["at_random"][0] = 0  # how many kills came too late is left to chance
    moments = len(list(killed_runs.moments()))
    assert outcomes == {
        name: [0 if name == "at_random" else moments, []] for name in killed_runs.SCENARIOS
    }
