"""How the kernels are compiled: a shared library with plain C symbols, for any Python and torch.

Needs a C compiler and nothing else, and imports nothing of dubio: it runs before dubio is
installed. The code is compiled once for each level of instructions, and the library chooses among
them when it is loaded, so a build serves every processor of its kind.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).parent / "kernels"
LIBRARY = "libdubio.so.1"  # no name of a Python module
REPORT = "build.txt"  # beside the library: how it was built, or why it was not

# -fno-trapping-math lets comparisons be vectorised; results stay those of IEEE arithmetic, but for
# products that are added without being rounded first. No path and no time gets into the library.
FLAGS = (
    "-O3", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-ffp-contract=fast", "-fno-math-errno",
    "-fno-trapping-math", "-Wall", "-Wextra", "-Werror=implicit",
)  # fmt: skip
LINKING = ("-shared", *(("-s", "-Wl,--build-id=none") if platform.system() == "Linux" else ()))
LEVELS = {
    "plain": (),
    "avx2": ("-mavx2", "-mbmi2", "-mfma"),
    "avx512": (
        "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma",
        "-mprefer-vector-width=512",
    ),
}  # fmt: skip


class BuildError(Exception):
    """The kernels cannot be compiled here."""


def build(folder: Path, flags: Sequence[str] = ()) -> Path:
    """Compile the kernels into a folder.

    Args:
        folder: Where the library goes.
        flags: Further ones for the compiler and the linker, such as ``-fsanitize=address``.

    Returns:
        The library.
    """
    compiler = _compiler()
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    levels = LEVELS if x86 else {"plain": ()}
    with tempfile.TemporaryDirectory() as temporary:
        objects = []
        for level, own in levels.items():
            objects.append(f"{temporary}/{level}.o")
            _run(
                [*compiler, *FLAGS, *own, *flags, f"-DLEVEL={level}", "-c"],
                [str(SOURCES / "level.c"), "-o", objects[-1]],
            )
        objects.append(f"{temporary}/dispatch.o")
        machine = ["-DHAVE_X86"] if x86 else []
        _run(
            [*compiler, *FLAGS, *machine, *flags, "-c"],
            [str(SOURCES / "dispatch.c"), "-o", objects[-1]],
        )
        made = Path(temporary) / LIBRARY
        _run([*compiler, *LINKING, *flags], [*objects, "-lpthread", "-lm", "-o", str(made)])
        if not made.is_file():
            raise BuildError(f"{compiler[0]} said that all is well, and made nothing")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return Path(shutil.copy(made, folder / LIBRARY))
        except OSError as error:
            raise BuildError(f"the library cannot be written: {error}") from error


def build_or_explain(folder: Path) -> str:
    """Compile the kernels if that can be done, and leave a word beside them in either case.

    Args:
        folder: Where the library and the word go, if they can.

    Returns:
        The word: how it was built, or why it was not.
    """
    try:
        (folder / LIBRARY).unlink(missing_ok=True)
        if os.environ.get("DUBIO_NATIVE") == "0":
            raise BuildError("DUBIO_NATIVE=0 when dubio was installed")
        library = build(folder)
        word = f"built by {' '.join(_compiler())}"
        lines = [word, f"library {digest(library)}", f"sources {digest(*sources())}"]
    except (BuildError, OSError) as error:
        word = f"not built: {error}"
        lines = [word]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT).write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        return f"{word}; and no word can be left beside it: {error}"
    return word


def sources() -> list[Path]:
    """Return what is compiled, in order."""
    return sorted(SOURCES.glob("*.[ch]"))


def digest(*files: Path) -> str:
    """Return the SHA-256 of files one after another."""
    content = hashlib.sha256()
    for file in files:
        content.update(file.read_bytes())
    return content.hexdigest()


def _compiler() -> list[str]:
    """Return the C compiler: that of the variable CC, else cc, gcc or clang."""
    if given := os.environ.get("CC"):
        return shlex.split(given)
    configured = shlex.split(sysconfig.get_config_var("CC") or "")
    for name in (*configured[:1], "cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise BuildError("no C compiler was found when dubio was installed; install gcc or clang")


def _run(command: Sequence[str], files: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            [*command, *files], capture_output=True, text=True, errors="replace", timeout=600
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} did not run: {error}") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise BuildError(f"{command[0]} failed: {last[0]}")
