"""The command line: options from configs, clear errors, exit codes, JSON for scripts."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import dubio
import dubio_studies
import practice
from dubio import cli, data
from dubio_studies.catalogue import ENTRIES
from dubio_studies.commands import shows_colours
from dubio_studies.demo import __main__ as demo


def refuse(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command that must be refused as wrong usage."""
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert not captured.out
    return captured.err


def test_list_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert len(entries) > 30
    for entry in entries:
        assert {"id", "family", "paper", "title", "status", "scales"} <= set(entry)
        assert entry["id"].startswith(entry["family"] + "/")
        assert (entry["paper"] is None) == (entry["family"] == "uncertainty")
        assert entry["status"] in ("implemented", "nothing to compute")
        wanted = ["smoke", "small", "paper"] if entry["status"] == "implemented" else []
        assert entry["scales"] == wanted
    by_id = {entry["id"]: entry for entry in entries}
    assert by_id["boluki2020/figure-1"]["status"] == "implemented"


def test_signs_that_an_encoding_lacks_and_a_full_disk() -> None:
    command = [sys.executable, "-m", "dubio", "list"]
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=plain, capture_output=True, text=True)
    assert done.returncode == 0
    assert "Boluki et al." in done.stdout
    full = Path("/dev/full")
    if full.exists():
        with full.open("w") as nowhere:
            done = subprocess.run(command, stdout=nowhere, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1
        assert done.stderr == (
            "dubio: standard output: no space left; free some, or write elsewhere\n"
        )


@pytest.mark.parametrize(
    ("terminal", "variables", "shown"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, variables: dict[str, str], shown: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert shows_colours() == shown


def test_list_for_readers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    text = capsys.readouterr().out
    for word in ("boluki2020/figure-1", "clark2022/table-3", "nothing to compute", "takes about"):
        assert word in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "COMMAND"),
        (["dance"], "invalid choice"),
        (["run"], "expected a study first"),
        (["run", "--scale", "small"], "expected a study first"),
        (["run", "boluki2020/figur-1"], "did you mean boluki2020/figure-1"),
        (["report", ""], "there is no study ''"),
        (["run", "002/table-1"], "the study is now called gal2016/table-1"),
        (["report", "000/figure-1"], "the study is now called boluki2020/figure-1"),
        (["run", next(e.id for e in ENTRIES if not e.module)], "nothing to compute"),
        (["run", practice.ID, "--scale", "huge"], "invalid choice: 'huge'"),
        (["run", practice.ID, "--jobs", "0"], "expected a whole number from 1, got '0'"),
        (["run", practice.ID, "--seed", "-1"], "expected a whole number from 0"),
        (["run", practice.ID, "--size", "many"], "expected a whole number, got 'many'"),
        (["run", practice.ID, "--pause", "x"], "expected a number, got 'x'"),
        (["run", practice.ID, "--pause", "nan"], "expected a finite number, got 'nan'"),
        (["run", practice.ID, "--pause", "inf"], "expected a finite number, got 'inf'"),
        (["run", practice.ID, "--limit=-inf"], "expected a finite number, got '-inf'"),
        (["run", practice.ID, "--log", "\udcfe"], "expected a text in UTF-8, got '\\udcfe'"),
        (["run", practice.ID, "--seed", str(2**63)], "expected a whole number below 2**63"),
        (["run", practice.ID, "--size", "0"], "size: expected at least 1, got 0"),
        (["run", practice.ID, "--siz", "3"], "unrecognized arguments"),
        (["run", practice.ID, "--engine", "spark"], "expected local, dask, ray"),
        (["list", "--colour"], "unrecognized arguments"),
    ],
)
def test_wrong_usage(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refuse(words, capsys)


def test_options_come_from_the_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", practice.ID, "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("--size INT", "--shape INT [INT ...]", "--no-flag", "A number or nothing"):
        assert word in text
    words = ["run", practice.ID, "--output", str(tmp_path), "--scale", "smoke", "--json"]
    settings = ["--shape", "4", "5", "--flag", "--limit", "2.5"]
    assert cli.main([*words, *settings]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["computed"], done["stored"], done["rows"]) == (3, 0, 15)
    kept = json.loads((Path(done["folder"]) / "run.json").read_text())["settings"]
    assert (kept["shape"], kept["flag"], kept["limit"], kept["size"]) == ([4, 5], True, 2.5, 3)


def test_a_scheduler_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    distributed = pytest.importorskip("distributed")

    def unreachable(*arguments: object, **options: object) -> None:
        raise OSError("timed out")

    monkeypatch.setattr(distributed, "Client", unreachable)
    words = ["run", practice.ID, "--output", str(tmp_path), "--engine", "dask=tcp://nowhere:1"]
    assert cli.main(words) == 1
    assert "no Dask scheduler answers at tcp://nowhere:1" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ["run", practice.ID, "--output", str(tmp_path), "--engine", "ray"]
    assert cli.main(words) == 1
    assert "pip install 'dubio-studies[ray]'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["list", "run", "report", "ledger", "demo"])
def test_without_the_studies(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "entry_points", lambda **_: ())
    assert cli.main([name, "--json"]) == 1
    assert f"'dubio {name}' comes with the studies; pip install 'dubio[studies]'" in (
        capsys.readouterr().err
    )
    assert cli.main(["--help"]) == 0
    help_ = " ".join(capsys.readouterr().out.split())
    assert help_.count("[pip install 'dubio[studies]']") == 5
    assert cli.main(["dance"]) == 2


def test_a_broken_command_of_another_package_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = EntryPoint("broken", "no_such_module:command", "dubio.commands")
    known = cli.entry_points

    def found(**fields: str) -> list[EntryPoint]:
        others = list(known(**fields))
        return [*others, broken] if fields.get("name") in (None, "broken") else others

    monkeypatch.setattr(cli, "entry_points", found)
    assert cli.main(["--help"]) == 0
    assert "cannot be loaded" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert cli.main(["list"]) == 0


def test_where_the_demo_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (tmp_path, tmp_path / "none" / "demo.html"):
        assert "expected a file in a folder that exists" in refuse(
            ["demo", "--output", str(place)], capsys
        )


def test_the_library_does_not_need_the_studies() -> None:
    """Neither `import dubio` nor any of its modules loads them; a name of both is an accident."""
    check = (
        "import sys; sys.modules['dubio_studies'] = None\n"
        "import pkgutil, importlib, dubio\n"
        "for m in pkgutil.walk_packages(dubio.__path__, 'dubio.'):\n"
        "    if m.name.startswith('dubio.bridges.') or m.name.endswith('__main__'): continue\n"
        "    importlib.import_module(m.name)\n"
    )  # bridges need what they lead to
    finished = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_both_distributions_have_one_version() -> None:
    assert dubio.__version__ == dubio_studies.__version__


def test_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Inventory(list[str]):
        def to_dicts(self) -> list[dict[str, str]]:
            return [{"name": name} for name in self]

        def __str__(self) -> str:
            return "a table"

    monkeypatch.setattr(data, "available", lambda: Inventory(["mnist"]))
    assert cli.main(["data"]) == 0
    assert capsys.readouterr().out == "a table\n"
    assert cli.main(["data", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "mnist"}]


@pytest.mark.parametrize("place", ["none", "a file", "~nobody-of-this-name/data"])
def test_data_that_are_nowhere(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a file").write_text("")
    chosen = place if place.startswith("~") else str(tmp_path / place)
    monkeypatch.setenv("DUBIO_DATA", chosen)
    assert cli.main(["data"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("dubio: DUBIO_DATA: expected")
    assert message.count("\n") == 1


def test_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The demo's own tests see it through; here it is enough that its options arrive."""
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(demo, "run", lambda *arguments: calls.append(arguments))
    assert cli.main(["demo", "--output", str(tmp_path / "page.html"), "--steps", "7"]) == 0
    assert calls == [(tmp_path / "page.html", None, 7, 80)]


def test_as_a_module_and_light_to_import() -> None:
    """``python -m dubio`` works; neither it nor ``import dubio`` loads what it does not need."""
    heavy = "['joblib', 'matplotlib', 'sklearn', 'distributed', 'pandas', 'scipy']"
    check = (
        "import sys, dubio, runpy; sys.argv = ['dubio', 'list', '--json']\n"
        "try: runpy.run_module('dubio', run_name='__main__')\n"
        f"finally: assert not set({heavy}) & set(sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", check], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)[0]["id"] == "boluki2020/figure-1"
