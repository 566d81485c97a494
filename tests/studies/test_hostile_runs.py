"""Runs and pages under attack: altered files, scripts in rows, full disks, signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import practice
from dubio import cli
from dubio_studies.framework.options import as_options
from dubio_studies.framework.running import run
from dubio_studies.framework.store import StoreError, as_lines, read_recipe, read_rows, seal
from dubio_studies.report.results import collect

SMALL = practice.Config()
DEEP = b"[" * 100_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run."""
    return run(practice.STUDY, "small", SMALL, root=tmp_path).folder


def altered(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        fields = json.loads(path.read_text())
        change(fields)
        path.write_text(json.dumps(fields))

    return alter


HARMS: dict[str, Callable[[Path], object]] = {
    "settings": altered(lambda f: f["settings"].update(size=7)),
    "scale": altered(lambda f: f.update(scale="paper")),
    "a scale that is none": altered(lambda f: f.update(scale="<script>")),
    "a scale that is a list": altered(lambda f: f.update(scale=["small"])),
    "seed": altered(lambda f: f.update(seed=1)),
    "revision": altered(lambda f: f.update(revision=2)),
    "study": altered(lambda f: f.update(study="gal2016/table-1")),
    "settings and hash": altered(lambda f: f.update(hash="00000000")),
    "no hash": altered(lambda f: f.pop("hash")),
    "no settings": altered(lambda f: f.pop("settings")),
    "one field more": altered(lambda f: f.update(extra=1)),
    "settings are a list": altered(lambda f: f.update(settings=[1])),
    "settings are a set of NaN": lambda p: p.write_text('{"hash": "", "settings": NaN}'),
    "a list": lambda p: p.write_text("[]"),
    "a number": lambda p: p.write_text("1"),
    "empty": lambda p: p.write_text(""),
    "no text": lambda p: p.write_bytes(b"\xff\xfe\x00"),
    "deep": lambda p: p.write_bytes(DEEP),
}


@pytest.mark.parametrize("harm", HARMS)
def test_an_altered_recipe_is_not_believed(harm: str, folder: Path, tmp_path: Path) -> None:
    HARMS[harm](folder / "run.json")
    with pytest.raises(StoreError, match=r"run\.json: .*[Rr]un the study again"):
        read_recipe(folder)
    results, problems = collect(tmp_path)
    assert [str(folder) in problem for problem in problems] == [True]
    assert cli.main(["report", practice.ID, "--rows", str(tmp_path), "--output", "x"]) == 1
    assert all(result.shown is None for result in results)
    again = run(practice.STUDY, "small", SMALL, root=tmp_path)  # writes it anew
    assert again.computed == 0
    assert read_recipe(folder).settings["size"] == SMALL.size


@pytest.mark.parametrize("missing", ["config", "piece", "row", "value", "metric", "seconds"])
def test_a_row_with_a_right_checksum_and_a_missing_field(missing: str, folder: Path) -> None:
    path = folder / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row.pop("check")
    rows[3].pop(missing)
    path.write_text(as_lines([seal(row) for row in rows]))
    with pytest.raises(StoreError, match="damaged"):
        read_rows(folder)


@pytest.mark.parametrize("line", [DEEP, b'{"a":' * 50_000, b"[]", b"1", b"null", b'{"check": []}'])
def test_a_line_that_is_no_row(line: bytes, folder: Path, tmp_path: Path) -> None:
    path = folder / "rows.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(StoreError, match="damaged"):
        read_rows(folder)
    again = run(practice.STUDY, "small", SMALL, root=tmp_path, say=lambda line: None)
    assert again.computed == 0  # all pieces were whole


def test_scripts_in_every_field_of_a_row_are_shown_as_text(folder: Path, tmp_path: Path) -> None:
    from dubio_studies.catalogue import find
    from dubio_studies.report.pages import study_page
    from dubio_studies.report.results import look

    script = "<script>alert(1)</script>"
    path = folder / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row.pop("check")
        row.update(dict.fromkeys(("study", "scale", "method", "metric", "versions"), script))
        row[script] = script
    path.write_text(as_lines([seal(row) for row in rows]))
    result = look(find(practice.ID), tmp_path, [])
    assert result.shown is not None
    page = study_page(result, result.shown)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_scripts_in_settings_and_folders_are_shown_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "<script>alert(1)<"
    rows, pages = tmp_path / script, tmp_path / "pages"
    words = ["--log", str(tmp_path / f"{script}.log"), "--output", str(rows)]
    assert cli.main(["run", practice.ID, *words]) == 0
    (folder,) = (rows / practice.ID).iterdir()
    shutil.copytree(folder, folder.with_name(f"small-{script}"))  # one that is not to be believed
    assert cli.main(["report", "--rows", str(rows), "--output", str(pages)]) == 1
    assert f"small-{script}" in capsys.readouterr().err
    texts = [page.read_text() for page in pages.rglob("*.html")]
    assert any("&lt;script&gt;alert(1)" in text for text in texts)
    assert not any("<script>alert" in text for text in texts)


def test_scripts_in_rows_of_real_studies(tmp_path: Path) -> None:
    """Tables and claims that show what rows say: names of methods, features, tables."""
    from dubio_studies.catalogue import find
    from dubio_studies.framework.claims import rule_on
    from dubio_studies.framework.rows import Rows
    from dubio_studies.report.pages import claim_html, exhibit_html

    script = "<script>alert(1)</script>"
    results = Path(__file__).parents[2] / "results"
    entry = find("herlau2022/figure-1a")
    (place,) = (results / entry.id).iterdir()
    stored = read_rows(place)
    assert stored is not None
    name = stored.distinct("feature")[0]
    rows = Rows(
        [{**r, "feature": script if r.get("feature") == name else r.get("feature")} for r in stored]
    )
    study = entry.load()
    text = "".join(exhibit_html(exhibit, "x") for exhibit in study.page.exhibits(rows))
    text += "".join(
        claim_html(entry, rule_on(c, rows, "paper", examined=True)) for c in study.page.claims
    )
    assert "<script" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-7, 123456.789, 2.5e300, 0.30000000000000004])
def test_settings_are_printed_so_that_the_command_repeats_them(value: float) -> None:
    words = as_options({"pause": value}).split()
    assert words[0] == "--pause"
    assert float(words[1]) == value


def test_settings_with_spaces_are_quoted() -> None:
    import shlex

    text = as_options({"log": "a file; rm", "shape": (1, 2), "flag": True})
    assert shlex.split(text) == ["--log", "a file; rm", "--shape", "1", "2", "--flag"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=4k", "tmpfs", str(place)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("mounting is not permitted")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * 200 * 1024)  # run.json and some pieces fit
    words = ["run", practice.ID, "--output", str(small_disk / "rows"), "--size", "40"]
    assert cli.main(words) == 1
    message = capsys.readouterr().err
    assert "No space left on device" in message
    assert "free some space" in message
    assert not list(small_disk.rglob("*.tmp"))
    kept = len(list(small_disk.rglob("*.jsonl")))
    assert 0 < kept < 40
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert cli.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stored"] == kept


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_folders_that_another_user_may_not_write(folder: Path, tmp_path: Path) -> None:
    for place in (tmp_path, *tmp_path.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)
    for parent in tmp_path.parents:  # to get there at all
        if parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o055)
    script = (
        "import os, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "import practice, torch, joblib\n"
        "from dubio_studies.framework import running\n"
        "from dubio_studies.report import site\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "practice.command(sys.argv[1:])\n"
    )
    for words in (
        ["run", practice.ID, "--output", str(tmp_path), "--seed", "5"],
        ["report", "--rows", str(tmp_path), "--output", str(tmp_path / "pages")],
    ):
        finished = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True
        )
        assert finished.returncode == 1, finished.stderr
        assert "Permission denied" in finished.stderr
        assert "Traceback" not in finished.stderr
    assert read_rows(folder) is not None


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_keeps_what_is_finished(which: signal.Signals, tmp_path: Path) -> None:
    words = ["run", practice.ID, "--size", "60", "--pause", "0.05", "--output", str(tmp_path)]
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}; import practice; practice.command({words!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while len(list(tmp_path.rglob("pieces/*.jsonl"))) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(which)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 128 + which
    assert "interrupted; what is finished is kept" in message
    assert "Traceback" not in message
    assert not list(tmp_path.rglob("*.tmp"))
    kept = len(list(tmp_path.rglob("pieces/*.jsonl")))
    again = run(practice.STUDY, "small", practice.Config(size=60, pause=0.05), root=tmp_path)
    assert again.stored == kept >= 3
