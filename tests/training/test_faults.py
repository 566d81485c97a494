"""Checkpoints and data under faults: kills, signals, full disks, other processes and users.

The faults are real: see `faulty_runs`, which forks a process for each.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dubio
import faulty_runs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")
IN_USE = "CheckpointError: checkpoint: expected a file that no other run saves to, got "


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """All scenarios in one process that forks, since most of the time is that of imports."""
    folder = tmp_path_factory.mktemp("faults")
    finished = subprocess.run(
        [sys.executable, faulty_runs.__file__, str(folder)],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": str(Path(dubio.__file__).parents[1])},
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout), folder


Outcome = Callable[[str], Any]


@pytest.fixture
def outcome(outcomes: tuple[dict[str, Any], Path]) -> Outcome:
    return outcomes[0].__getitem__


@pytest.fixture
def folder(outcomes: tuple[dict[str, Any], Path]) -> Path:
    return outcomes[1]


def test_kills_at_forty_moments_of_writing(outcome: Outcome) -> None:
    found = outcome("kills")
    assert found == {"killed": True, "damaged": 0, "same": True, "left": ["run.pt"]}


def test_kills_between_write_and_rename(outcome: Outcome) -> None:
    found = outcome("between_write_and_rename")
    assert found == {"temporary": [True] * 4, "same": True, "left": ["run.pt"]}


def test_a_second_process_is_refused_and_the_first_goes_on(outcome: Outcome, folder: Path) -> None:
    found = outcome("two_processes")
    assert found.pop("second").startswith(
        f"{IN_USE}{folder / 'two_processes' / 'run.pt'}, to which"
    )
    left = ["first", "go", "run.pt", "started"]
    assert found == {"untouched": True, "first": [0, True], "later": True, "left": left}


def test_eight_processes_at_once(outcome: Outcome) -> None:
    found = outcome("many_processes")
    assert found == {"codes": [0] * 8, "done": True, "sum": 8, "whole": True}


def test_the_lock_of_a_killed_run_is_free_though_its_workers_live(outcome: Outcome) -> None:
    assert outcome("killed_with_heirs") is True


def test_two_runs_in_one_process(outcome: Outcome) -> None:
    second, first_ends = outcome("threads")
    assert second.startswith(IN_USE)
    assert first_ends


def test_a_file_that_somebody_else_has_written_is_not_overwritten(outcome: Outcome) -> None:
    said, content = outcome("changed_by_others")
    assert "which has changed since this run has last saved it; pass another path" in said
    assert content == "theirs"


def test_sigterm_saves_and_then_ends_the_process(outcome: Outcome) -> None:
    """Exit code, steps that the next call has to do, whether it ends with the same numbers."""
    steps = faulty_runs.STEPS
    assert outcome("terminated") == [
        [-15, steps - 1, True],
        [-15, steps - 6, True],
        [-15, 0, True],
    ]


def test_sigterm_with_a_handler_of_ones_own(outcome: Outcome) -> None:
    assert outcome("terminated_with_a_handler") == [7, True, faulty_runs.STEPS - 6]


def test_a_second_sigterm_does_not_wait(outcome: Outcome) -> None:
    assert outcome("terminated_twice") == [-15, True]


def test_a_full_disk(outcome: Outcome) -> None:
    found = outcome("full_disk")
    if found is None:
        pytest.skip("nobody may mount a small file system here")
    assert "(No space left on device); pass a path in a folder with room" in found.pop("said")
    left = ["filler", "run.pt"]
    assert found == {"left": left, "whole": True, "same": True, "steps": faulty_runs.STEPS - 3}


def test_a_disk_without_any_room(outcome: Outcome) -> None:
    found = outcome("full_from_the_start")
    if found is None:
        pytest.skip("nobody may mount a small file system here")
    said, steps, left = found
    assert "(No space left on device)" in said
    assert (steps, left) == (0, [])


def test_a_limit_on_the_size_of_files(outcome: Outcome) -> None:
    found = outcome("limited_size")
    assert "(File too large)" in found.pop("said")
    assert found == {"left": ["run.pt"], "same": True, "steps": faulty_runs.STEPS - 3}


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to be others"
)
def test_folders_of_another_user(outcome: Outcome, folder: Path) -> None:
    found = outcome("other_user")
    for name in ("a new run", "a run that goes on"):
        assert found[name].startswith("CheckpointError: checkpoint: expected a file that can be w")
    for name in ("a secret folder", "a secret checkpoint"):
        assert found[name].startswith("CheckpointError: checkpoint: expected a file that can be r")
        assert "(Permission denied); change who may read it" in found[name]
    assert found["a run that is done"] is True
    assert found["untouched"] is True
    for name in ("data", "cache"):
        assert found[name] == f"no error, but {folder / 'other_user' / 'locked' / 'here.bin'}"
    assert found["download"].startswith("DataError: absent.bin: the download from")
    assert "Permission denied" in found["download"]
    for name in ("secret data", "all data"):
        assert found[name].startswith("DataError: DUBIO_DATA: expected a folder that can be read")
    assert "nothing that can be reached; create it" in found["below secret data"]
    for name in ("secret cache", "secret folder in data", "secret file"):
        assert "here.bin: expected a file that can be read, got Permission denied" in found[name]
