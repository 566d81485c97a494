"""Loading: what is found beside `library.py`, what is refused, and what dubio says about it.

A copy of the few files that it needs is imported by another process, without torch.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dubio
from dubio.native import building, library
from dubio.native.building import LIBRARY, REPORT, digest

HERE = Path(building.__file__).parent
SAYS = "from dubio.native.library import kernels; print(kernels())"
needs_library = pytest.mark.skipif(
    not (HERE / LIBRARY).is_file(), reason="dubio was installed without kernels"
)


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """The folder of a dubio that has nothing but its kernels."""
    folder = tmp_path / "dubio" / "native"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "dubio" / "__init__.py").write_text("")
    return folder


def said(native: Path, **variables: str) -> str:
    """What a new process says about its kernels."""
    environment = {**os.environ, "PYTHONPATH": str(native.parents[1]), **variables}
    if not variables:
        environment.pop(library.VARIABLE, None)
    done = subprocess.run(
        [sys.executable, "-B", "-c", SAYS], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_library
def test_what_was_built_is_used(native: Path) -> None:
    assert said(native).startswith("noise by compiled kernels, ")
    assert "built by " in said(native)
    assert said(native, DUBIO_NATIVE="plain").startswith("noise by compiled kernels, plain: ")
    assert said(native, DUBIO_NATIVE="plain").endswith(", DUBIO_NATIVE=plain")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_the_kernels_are_in_use_where_there_is_a_compiler() -> None:
    """Or else the tests of the kernels test torch. The remedy is `make setup`."""
    if os.environ.get(library.VARIABLE) == "0":
        assert dubio.kernels() == dubio.Kernels(False, "", "DUBIO_NATIVE=0")
    else:
        assert dubio.kernels().native, dubio.kernels().reason


def test_switched_off(native: Path) -> None:
    assert said(native, DUBIO_NATIVE="0") == "noise by torch: DUBIO_NATIVE=0"


def test_another_word_is_an_error(native: Path) -> None:
    with pytest.raises(AssertionError, match="expected 0, 1, plain, avx2, avx512 or nothing"):
        said(native, DUBIO_NATIVE="x")


def rewrite(native: Path, content: bytes) -> None:
    """Another library, with a report that vouches for it."""
    (native / LIBRARY).unlink()
    (native / LIBRARY).write_bytes(content)
    sources = digest(*building.sources())
    (native / REPORT).write_text(
        f"built by someone\nlibrary {digest(native / LIBRARY)}\nsources {sources}\n"
    )


def damage(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(native: Path) -> None:
        content = (native / LIBRARY).read_bytes()
        (native / LIBRARY).unlink()
        (native / LIBRARY).write_bytes(change(content))

    return apply


def foreign(native: Path) -> None:
    """Of another processor."""
    content = bytearray((native / LIBRARY).read_bytes())
    content[18] ^= 0xFF  # the machine in the head of an ELF file
    rewrite(native, bytes(content))


def of_another_version(native: Path) -> None:
    """The same with another name in its table of symbols."""
    content = (native / LIBRARY).read_bytes()
    rewrite(native, content.replace(b"dubio_sample_backward\0", b"dubio_sample_forwards\0"))


def stale(native: Path) -> None:
    with (native / "kernels" / "masks.h").open("a") as file:
        file.write("/* changed */\n")


DAMAGED = f"{LIBRARY} is damaged, or of another build; install dubio again"
FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut off": (damage(lambda content: content[: len(content) // 2]), DAMAGED),
    "empty": (damage(lambda content: b""), DAMAGED),
    "text": (damage(lambda content: b"version https://git-lfs"), DAMAGED),
    "a bit": (damage(lambda content: content[:-9] + b"\x55" + content[-8:]), DAMAGED),
    "no report": (lambda native: (native / REPORT).unlink(), "run pip install"),
    "empty report": (lambda native: (native / REPORT).write_text(""), DAMAGED),
    "odd report": (lambda native: (native / REPORT).write_bytes(b"\xff\xfe"), "cannot be loaded"),
    "no library": (lambda native: (native / LIBRARY).unlink(), "noise by torch: "),
    "not a library": (lambda native: rewrite(native, b"text"), "cannot be loaded"),
    "foreign": (foreign, "cannot be loaded"),
    "of another version": (of_another_version, "has no dubio_sample_backward"),
    "stale": (stale, "the sources have changed since they were compiled; install dubio again"),
}


@needs_library
@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_trusted_is_not_loaded(native: Path, name: str) -> None:
    spoil, expected = FAULTS[name]
    spoil(native)
    word = said(native)
    assert word.startswith("noise by torch: ")
    assert expected in word


@needs_library
def test_nothing_is_written_where_dubio_lies(native: Path) -> None:
    """So that site-packages may be read-only."""
    before = {path: path.stat().st_mtime_ns for path in native.rglob("*")}
    for path in sorted(before, reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    native.chmod(0o555)
    assert said(native).startswith("noise by compiled kernels, ")
    assert {path: path.stat().st_mtime_ns for path in native.rglob("*")} == before
    native.chmod(0o755)


def test_an_old_processor_gets_what_it_has(level: str) -> None:
    assert dubio.kernels().level == level
    assert f"compiled kernels, {level}" in str(dubio.kernels())


def test_all_of_dubio_works_without_kernels() -> None:
    code = (
        "import torch, dubio; from torch import nn; torch.manual_seed(0);"
        "net = nn.Sequential(nn.Linear(3, 40), nn.Dropout(0.3), nn.Linear(40, 2));"
        "x = torch.randn(5, 3); draws = dubio.predict(net, x, draws=20, generator=0).draws;"
        "print(dubio.kernels().native, round(draws.double().sum().item(), 2))"
    )
    said = {}
    for chosen in ("0", "1"):
        environment = os.environ | {library.VARIABLE: chosen}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        said[chosen] = done.stdout.split()
    assert said["0"] == ["False", said["1"][1]]
