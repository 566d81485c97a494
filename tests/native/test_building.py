"""Installing: with a compiler, with a broken one and with none; and what the wheel holds."""

import os
import platform
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dubio.native import building
from dubio.native.building import LIBRARY, REPORT, build, build_or_explain

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@pytest.fixture(autouse=True)
def not_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the tests are run with."""
    monkeypatch.delenv("DUBIO_NATIVE", raising=False)


def script(path: Path, text: str) -> str:
    """An executable file."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def explained(folder: Path, expected: str) -> None:
    word = build_or_explain(folder)
    assert expected in word
    assert word.startswith("not built: ")
    assert (folder / REPORT).read_text() == word + "\n"
    assert not (folder / LIBRARY).exists()


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    explained(tmp_path / "native", "no C compiler was found when dubio was installed; install gcc")


BROKEN = {
    "false": ("false", "false failed: exit code 1"),
    "missing": ("no-such-compiler", "no-such-compiler did not run"),
    "idle": ("true", "true said that all is well, and made nothing"),
    "wordy": ("{script} 'printf \"\\377 bad \\n\" >&2; exit 3'", "bad"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    command, expected = BROKEN[name]
    monkeypatch.setenv("CC", command.format(script="sh -c"))
    explained(tmp_path, expected)


@needs_compiler
def test_a_compiler_that_cannot_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = script(
        tmp_path / "compiler",
        f'for word; do [ "$word" = -shared ] && {{ echo no linker >&2; exit 1; }}; done\n'
        f'exec {COMPILER} -O0 "$@"',
    )
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(building, "FLAGS", ("-O0", "-std=gnu11", "-fPIC"))  # to be quick
    explained(tmp_path / "native", "compiler failed: no linker")


def test_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LIBRARY).write_text("of an earlier build")
    monkeypatch.setenv("DUBIO_NATIVE", "0")
    explained(tmp_path, "DUBIO_NATIVE=0 when dubio was installed")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a read-only folder is; root may write into that, but not below a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(building, "_run", lambda command, files: Path(files[-1]).write_text(""))
    monkeypatch.setenv("CC", "cc")
    word = build_or_explain(tmp_path / "file" / "native")
    assert word.startswith("not built: ")
    assert "no word can be left beside it" in word


@needs_compiler
def test_two_builds_have_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "FLAGS", ("-O0", *building.FLAGS[1:]))  # to be quick
    copy = tmp_path / "elsewhere" / "kernels"
    shutil.copytree(building.SOURCES, copy)
    first = build(tmp_path / "first").read_bytes()
    monkeypatch.setattr(building, "SOURCES", copy)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert build(tmp_path / "second").read_bytes() == first
    assert str(ROOT).encode() not in first


@needs_compiler
@pytest.mark.skipif(platform.system() != "Linux", reason="sanitizers are used on Linux")
def test_no_kernel_reads_or_writes_where_it_must_not(tmp_path: Path) -> None:
    """`exercise.c` with the kernels under AddressSanitizer and UBSan, at every level."""
    flags = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Werror"]
    compiler, trial = str(COMPILER), tmp_path / "trial.c"
    trial.write_text("int main(void) { return 0; }\n")
    tried = subprocess.run([compiler, *flags, trial, "-o", tmp_path / "trial"], capture_output=True)
    if tried.returncode or subprocess.run([tmp_path / "trial"], check=False).returncode:
        pytest.skip("the compiler has no AddressSanitizer")
    build(tmp_path, flags)
    program = tmp_path / "exercise"
    source = Path(__file__).parent / "exercise.c"
    subprocess.run(
        [compiler, "-std=gnu11", "-Wall", "-Wextra", *flags, f"-I{building.SOURCES}", source,
         tmp_path / LIBRARY, "-lm", "-lpthread", "-o", program],
        check=True,
    )  # fmt: skip
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 10_000


@pytest.mark.parametrize("native", [True, False])
def test_a_wheel_holds_the_library_or_the_reason(tmp_path: Path, native: bool) -> None:
    pytest.importorskip("hatchling")
    if native and COMPILER is None:
        pytest.skip("no C compiler")
    source = tmp_path / "source"
    for name in ("src/dubio/native", "src/dubio/noise"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "src/dubio/__init__.py", source / "src/dubio")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    quick = script(tmp_path / "compiler", f'exec {COMPILER} "$@" -O0')
    environment = dict(os.environ) | {"CC": quick if native else "false"}
    environment.pop("DUBIO_NATIVE", None)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "dist"],
        cwd=source, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    report = zipfile.ZipFile(wheel).read(f"dubio/native/{REPORT}").decode()
    assert (f"dubio/native/{LIBRARY}" in names) == native
    assert ("py3-none-any" in wheel.name) == (not native)
    assert report.startswith(f"built by {quick}" if native else "not built: false failed")
    if not native:
        assert "dubio's kernels are not built: false failed" in done.stderr
    listing = subprocess.run(["tar", "-tzf", archive], capture_output=True, text=True).stdout
    assert "/hatch_build.py" in listing
    for file in building.sources():
        assert f"src/dubio/native/kernels/{file.name}" in listing
        assert f"dubio/native/kernels/{file.name}" in names
    assert LIBRARY not in listing
