"""``dubio evaluate`` as a command: the docs' own, and what is wrong with others."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import dubio
from dubio import cli
from dubio.evaluation import EvaluationError, build_network

ROOT = Path(__file__).parents[2]
MODEL = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))

def number():
    return 3

def lacking():
    import no_such_module

rate = 0.5
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model, its state and data."""
    monkeypatch.chdir(tmp_path)
    Path("a_model.py").write_text(MODEL)
    torch.manual_seed(0)
    torch.save(build_network("a_model.py:build").state_dict(), "state.pt")
    torch.save({"x": torch.randn(40, 4), "y": torch.randint(2, (40,))}, "rows.pt")
    torch.save({"x": 9 * torch.randn(40, 4)}, "foreign.pt")
    return tmp_path


def command(**options: str) -> list[str]:
    given = {"model": "a_model.py:build", "state": "state.pt", "data": "rows.pt"}
    given |= {"likelihood": "categorical", "draws": "5"} | options
    return [
        "evaluate", *(f"--{name.replace('_', '-')}={value}" for name, value in given.items()),
    ]  # fmt: skip


def commands_of(page: str) -> list[list[str]]:
    """The commands in the shell blocks of a page that are about evaluation."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = (shlex.split(line, comments=True) for block in blocks for line in block.splitlines())
    return [words for words in lines if words and "evaluate" in " ".join(words[:2])]


def test_the_commands_of_the_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    first, *evaluations = commands_of("docs/evaluate.md")
    assert first[0] == "python"
    assert len(evaluations) == 2
    assert commands_of("README.md") == [first, evaluations[0]]
    source = str(Path(dubio.__file__).parents[1])
    subprocess.run(
        [sys.executable, *first[1:]], check=True, env={**os.environ, "PYTHONPATH": source}
    )
    for words in evaluations:
        assert cli.main([*words[1:], "--draws", "10"]) == 0
    text = capsys.readouterr().out
    assert "plain, calibrated" in text
    assert Path("evaluation/index.html").resolve().as_uri() in text
    found = json.loads(Path("calibrated/metrics.json").read_text(encoding="utf-8"))
    assert found["rows"] == 997
    for column in ("plain", "draws", "plain_calibrated", "draws_calibrated"):
        assert found["metrics"]["accuracy"][column] > 0.93
    assert found["metrics"]["nll"]["draws_calibrated"] < 0.2
    assert found["settings"]["state_digest"].startswith("sha256:")
    assert found["settings"]["data_source"] == "digits of scikit-learn, test"


def test_the_page_needs_no_other_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command(ood="foreign.pt", output="out"), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed == (folder / "out/metrics.json").read_text(encoding="utf-8")
    found = json.loads(printed)
    assert found["foreign_rows"] == 40
    assert 0 <= found["metrics"]["foreign_mutual_information_auroc"]["draws"] <= 1
    page = (folder / "out/index.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)
    assert "prefers-color-scheme: dark" in page
    assert "mutual information: AUROC" in page
    assert "$" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert page.count("<svg") == 2 * 6  # for wide and narrow screens
    assert page.count("<title>dubio: a_model.py:build on rows.pt</title>") == 1
    drawings = {path.name for path in (folder / "out").glob("*.png")}
    assert drawings == {
        "accuracy-by-entropy.png", "entropies-5-draws.png", "entropies-plain.png", "pavgpu.png",
        "reliability.png", "risk-coverage.png",
    }  # fmt: skip


def test_numbers_have_a_page_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("numbers.pt", "validation.pt"):
        torch.save({"x": torch.randn(40, 4), "y": torch.randn(40, 2)}, name)
    words = command(data="numbers.pt", likelihood="gaussian=2", calibrate_with="validation.pt")
    assert cli.main(words) == 0
    assert "coverage of 90% intervals" in capsys.readouterr().out
    page = (folder / "evaluation/index.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 * 2
    assert "Fitted on validation data: factor" in page


def test_rows_are_not_judged_by_what_was_fitted_on_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command(data="digits", calibrate_with="digits")) == 2
    assert "expected other rows" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["a_model:build", "package.inner:build"])
def test_modules_of_the_current_folder(
    model: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("package").mkdir()
    Path("package/inner.py").write_text(MODEL)
    for name in ("a_model", "package", "package.inner"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert isinstance(build_network(model), nn.Sequential)
    for name in ("a_model", "package", "package.inner"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a_model.py", "expected package.module:function or file.py:function, got 'a_model.py'"),
        ("a_model.py:", "name the function"),
        ("other.py:build", "other.py, which does not exist"),
        ("no.such:build", r"expected a module no\.such, got none"),
        ("a_model.py:bild", "a function bild in a_model.py, got none; there are: build, number"),
        ("a_model.py:rate", "got float"),
        ("a_model.py:number", "to return an nn.Module, got int"),
    ],
)
def test_models_that_are_none(path: str, message: str, folder: Path) -> None:
    with pytest.raises(EvaluationError, match=message):
        build_network(path)


def test_errors_in_the_model_are_its_own(folder: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        build_network("a_model.py:lacking")
    Path("broken.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        build_network("broken.py:build")
    assert "_dubio_model_broken" not in sys.modules


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"likelihood": "gaussian"}, 2, "--likelihood: expected gaussian=PRECISION"),
        ({"likelihood": "weibull"}, 2, "expected categorical"),
        ({"draws": "0"}, 2, "expected a whole number from 1"),
        ({"draws": str(2**63)}, 2, r"expected a whole number below 2\*\*63"),
        ({"seed": str(2**70)}, 2, r"expected a whole number below 2\*\*63"),
        ({"data": "\udcff.pt"}, 2, r"--data: expected a text in UTF-8, got '\\udcff.pt'; rename"),
        ({"state": "\udcff.pt"}, 2, "--state: expected a text in UTF-8"),
        ({"output": "\udcff"}, 2, "--output: expected a text in UTF-8"),
        ({"state": "nowhere.pt"}, 1, "dubio: state: expected a file, got nowhere.pt"),
        ({"data": "mnits"}, 1, "dubio: data: expected a file"),
        ({"data": "foreign.pt"}, 1, "foreign.pt: expected targets y"),
        ({"output": "state.pt"}, 1, "output: expected a folder that can be written"),
        ({"likelihood": "gaussian=1"}, 1, "rows.pt: .*shape"),
    ],
)
def test_what_is_wrong_is_said(
    options: dict[str, str],
    code: int,
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(command(**options)) == code
    captured = capsys.readouterr()
    assert not captured.out
    assert re.search(message, captured.err)


def test_missing_packages_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(words: object) -> int:
        raise ImportError("dubio.metrics: expected torchmetrics, got none; pip install …")

    monkeypatch.setitem(cli.COMMANDS, "evaluate", lacking)
    assert cli.main(["evaluate"]) == 1
    assert capsys.readouterr().err.startswith("dubio: dubio.metrics: expected torchmetrics")


def test_the_extra_of_the_command_is_named() -> None:
    """Not that of the part of the library which misses a package first."""
    program = """
import sys
sys.modules["torchmetrics"] = None  # as if it were not installed
from dubio import cli
sys.exit(cli.main(["evaluate", "--model", "m:build", "--state", "s.pt", "--data", "digits",
                   "--likelihood", "categorical"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "dubio: this needs torchmetrics; pip install 'dubio[evaluate]', or from a clone: "
        "pip install '.[evaluate]'\n"
    )
