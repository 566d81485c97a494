"""Runs: resumed after any death, never computed twice, the same rows from every engine."""

import dataclasses
import errno
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import practice
from dubio import cli
from dubio_studies import catalogue
from dubio_studies.framework import store
from dubio_studies.framework.engine import Engine
from dubio_studies.framework.recipe import Recipe, piece_key
from dubio_studies.framework.running import PiecesFailed, Run, run
from dubio_studies.framework.store import Store, StoreError, read_rows
from dubio_studies.framework.study import Measurement, Piece, Study

SMALL = practice.Config()


def execute(root: Path, config: practice.Config = SMALL, **options: object) -> Run:
    return run(practice.STUDY, "small", config, root=root, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return execute(tmp_path_factory.mktemp("clean"))


def rows_file(finished: Run) -> Path:
    return finished.folder / "rows.jsonl"


def test_a_run_is_complete_and_says_where_its_rows_come_from(clean: Run) -> None:
    assert clean.computed == 5
    assert len(clean.rows) == 25
    for row in clean.rows:
        assert row["study"] == practice.ID
        assert row["scale"] == "small"
        assert row["seed"] == 0
        assert row["config"] == Recipe.of(practice.STUDY, "small", SMALL, 0).hash
        assert row["seconds"] >= 0
        for name in ("dubio", "torch", "numpy", "python"):
            assert name in row["versions"]
    assert {path.name for path in clean.folder.iterdir()} == {".lock", "rows.jsonl", "run.json"}
    read = read_rows(clean.folder)
    assert read is not None
    assert read.comparable() == clean.rows.comparable()


def test_the_same_config_is_not_computed_again(clean: Run) -> None:
    root = clean.folder.parents[2]
    before = rows_file(clean).read_bytes()
    again = execute(root)
    assert (again.computed, again.stored) == (0, 5)
    assert rows_file(clean).read_bytes() == before
    assert execute(root, seed=1).computed == 5
    assert execute(root, practice.Config(size=6)).computed == 6


def test_seeds_depend_on_names_alone(clean: Run, tmp_path: Path) -> None:
    """A piece has its own numbers, whatever was computed before it."""
    wider = execute(tmp_path, seed=1)
    own = [clean.rows.where(metric="own").values(), wider.rows.where(metric="own").values()]
    assert len({*own[0], *own[1]}) == 10
    assert len(clean.rows.where(metric="common").distinct("value")) == 1
    for metric in ("sum", "numpy", "python"):
        assert len(clean.rows.where(metric=metric).distinct("value")) == 5


def test_random_states_and_threads_are_put_back(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    execute(tmp_path)
    assert torch.rand(1) == expected


def test_four_processes_and_a_dask_cluster_give_the_same_rows(
    clean: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    four = execute(tmp_path / "jobs", jobs=4)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=3, dashboard_address=None
    ) as cluster:
        engine = Engine.parse(f"dask={cluster.scheduler_address}")
        dask = execute(tmp_path / "dask", engine=engine)
    for other in (four, dask):
        assert other.computed == 5
        assert other.rows.comparable() == clean.rows.comparable()


def test_a_ray_cluster_gives_the_same_rows(
    clean: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    other = execute(tmp_path, engine=Engine("ray"), jobs=2)
    assert other.rows.comparable() == clean.rows.comparable()


def test_killed_ten_times_at_random_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["practice", "dubio_studies.framework.running", "joblib", "filelock"]
    )
    log = tmp_path / "log"
    log.touch()
    config = practice.Config(size=100, pause=0.02, log=str(log))
    words = ["run", practice.ID, "--size", "100", "--pause", "0.02", "--log", str(log)]
    folder = Store(tmp_path, Recipe.of(practice.STUDY, "small", config, 0)).folder

    def start() -> multiprocessing.process.BaseProcess:
        arguments = [*words, "--output", str(tmp_path)]
        process = context.Process(target=practice.command, args=(arguments,))
        process.start()
        return process

    def stored() -> set[str]:
        return {path.stem for path in (folder / "pieces").glob("*.jsonl")}

    chance = random.Random(0)
    kills = 0
    for _ in range(10):
        done, logged = stored(), len(log.read_text().splitlines())
        process = start()
        while process.is_alive() and len(log.read_text().splitlines()) == logged:
            process.join(0.005)  # until it has begun
        process.join(chance.uniform(0.0, 0.12))
        if process.is_alive():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        computed = {line.split()[1] for line in log.read_text().splitlines()[logged:]}
        assert not computed & done
    assert kills == 10
    done, logged = stored(), len(log.read_text().splitlines())
    process = start()
    process.join()
    assert process.exitcode == 0
    lines = log.read_text().splitlines()
    assert not {line.split()[1] for line in lines[logged:]} & done
    assert 100 <= len(lines) <= 100 + kills  # a kill costs at most the piece it interrupts
    assert not list(tmp_path.rglob("*.tmp"))
    log.unlink()
    fresh = execute(tmp_path / "fresh", config)
    resumed = read_rows(folder)
    assert resumed is not None
    assert resumed.comparable() == fresh.rows.comparable()


def test_workers_of_a_killed_run_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    log = tmp_path / "log"
    log.touch()
    words = ["run", practice.ID, "--size", "4", "--jobs", "2", "--log", str(log), "--pause", "2"]
    process = multiprocessing.get_context("spawn").Process(
        target=practice.command, args=([*words, "--output", str(tmp_path)],)
    )
    process.start()
    while len(log.read_text().splitlines()) < 2:  # both workers have begun their second piece
        assert process.is_alive()
        time.sleep(0.05)
    workers = {int(line.split()[0]) for line in log.read_text().splitlines()}
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    deadline = time.monotonic() + 60.0  # seconds; that a piece takes two does not end them
    while any(map(_is_running, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(log.read_text().splitlines()) < 4


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def cut_at_a_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(500) + b"\n[]\n3\n")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def change_a_digit(path: Path) -> None:
    text = path.read_text()
    place = text.rindex('"common", "value": ') + 19
    path.write_text(f"{text[:place]}{(int(text[place]) % 9) + 1}{text[place + 1 :]}")


@pytest.mark.parametrize("harm", [cut, cut_at_a_line, change_a_digit, fill_with_garbage, empty])
def test_a_damaged_file_is_named_set_aside_and_recomputed(
    harm: Callable[[Path], None], tmp_path: Path, clean: Run
) -> None:
    path = rows_file(execute(tmp_path))
    harm(path)
    with pytest.raises(StoreError, match=r"rows\.jsonl: damaged"):
        read_rows(path.parent)
    said: list[str] = []
    again = execute(tmp_path, say=said.append)
    assert any(str(path) in line and "set aside" in line for line in said)
    assert path.with_name("rows.jsonl.damaged").exists()
    assert again.computed == (5 if harm in (fill_with_garbage, empty) else 1)  # whole ones are kept
    assert again.rows.comparable() == clean.rows.comparable()


def test_a_damaged_piece_of_an_unfinished_run(tmp_path: Path, clean: Run) -> None:
    with pytest.raises(PiecesFailed, match="told to fail"):
        execute(tmp_path, practice.Config(fail=2))
    (folder,) = (tmp_path / practice.ID).iterdir()
    first, *others = sorted((folder / "pieces").glob("*.jsonl"))
    assert len(others) == 3
    fill_with_garbage(first)
    said: list[str] = []
    with pytest.raises(PiecesFailed, match="1 of 5 pieces failed"):
        execute(tmp_path, practice.Config(fail=2), say=said.append)
    assert any(first.name in line for line in said)
    assert first.exists()
    assert first.with_name(f"{first.name}.damaged").exists()


def test_pieces_that_were_added_to_a_finished_run_are_merged(tmp_path: Path, clean: Run) -> None:
    """A kill after the last of them leaves them in files of their own."""
    made = execute(tmp_path)
    lines = rows_file(made).read_text().splitlines(keepends=True)
    key = json.loads(lines[-1])["piece"]
    late = [line for line in lines if json.loads(line)["piece"] == key]
    rows_file(made).write_text("".join(line for line in lines if line not in late))
    pieces = made.folder / "pieces"
    pieces.mkdir()
    (pieces / f"{key}.jsonl").write_text("".join(late))
    again = execute(tmp_path)
    assert again.computed == 0
    assert rows_file(again).read_text() == "".join(lines)
    assert not pieces.exists()


def test_a_full_disk_loses_nothing(
    tmp_path: Path, clean: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 3:  # run.json and two pieces fit
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        execute(tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*.tmp"))
    again = execute(tmp_path, say=lambda line: None)
    assert (again.computed, again.stored) == (3, 2)
    assert again.rows.comparable() == clean.rows.comparable()


def test_a_file_in_place_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "results"
    place.write_text("mine")
    assert cli.main(["run", practice.ID, "--output", str(place)]) == 1
    assert str(place) in capsys.readouterr().err
    assert place.read_text() == "mine"


def test_a_failed_piece_is_told_and_tried_again(tmp_path: Path, clean: Run) -> None:
    with pytest.raises(PiecesFailed, match="told to fail"):
        execute(tmp_path, practice.Config(fail=4))
    assert len(list(tmp_path.rglob("*.jsonl"))) == 4


def test_two_processes_take_turns(tmp_path: Path, clean: Run) -> None:
    """The second waits, then finds everything done."""
    recipe = Recipe.of(practice.STUDY, "small", SMALL, 0)
    said: list[str] = []
    runs: list[Run] = []
    waiting = threading.Event()

    def listen(line: str) -> None:
        said.append(line)
        waiting.set()

    second = threading.Thread(target=lambda: runs.append(execute(tmp_path, say=listen)))
    with Store(tmp_path, recipe).locked(said.append):
        second.start()
        assert waiting.wait(60)
        assert not runs
    second.join()
    assert "another process" in said[0]
    assert runs[0].rows.comparable() == clean.rows.comparable()


def test_interrupted_runs_are_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object, **facts: object) -> None:
        raise KeyboardInterrupt

    words = ["run", practice.ID, "--output", str(tmp_path), "--json"]
    monkeypatch.setattr(Store, "finish", interrupt)
    assert cli.main(words) == 130
    assert "interrupted" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(catalogue, "ENTRIES", [practice.ENTRY])
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["computed"] == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1], torch.tensor(1.0)])
def test_values_that_are_no_numbers_are_refused(value: object, tmp_path: Path) -> None:
    computation = dataclasses.replace(
        practice.STUDY.computation, run=lambda *_: [{"metric": "m", "value": value}]
    )
    study = dataclasses.replace(practice.STUDY, computation=computation)
    with pytest.raises(PiecesFailed, match="finite number"):
        run(study, "small", SMALL, root=tmp_path)


def test_keys_tell_pieces_apart() -> None:
    assert piece_key({"a": 1, "b": 2}) == piece_key({"b": 2, "a": 1}) != piece_key({"a": 1})


def test_names_that_the_store_uses_itself_are_refused(tmp_path: Path) -> None:
    def study(piece: Piece, row: Measurement) -> Study[practice.Config]:
        made = dataclasses.replace(
            practice.STUDY.computation, pieces=lambda _: [piece], run=lambda *_: [row]
        )
        return dataclasses.replace(practice.STUDY, computation=made)

    fine = {"metric": "m", "value": 1.0}
    for bad in (study({"check": "late"}, fine), study({"part": "a"}, {**fine, "seconds": 3.0})):
        with pytest.raises(ValueError, match="rename the field"):
            run(bad, "small", SMALL, root=tmp_path)
