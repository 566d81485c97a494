"""The compiled kernels: loaded once, chosen by the processor, and switched off on demand."""

import ctypes
import os
import sys
from ctypes import POINTER, c_double, c_float, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from dubio.native.building import LIBRARY, REPORT, digest, sources

LEVELS = ("plain", "avx2", "avx512")
VARIABLE = "DUBIO_NATIVE"  # 0 for none, or the highest level to use


@final
class MaskDescription(ctypes.Structure):
    """A mask as ``kernels/masks.h`` describes it."""

    _fields_ = (
        ("rates", c_void_p),
        ("keep", c_double),
        ("scale", c_double),
        ("units", c_int64),
        ("temperature", c_float),
        ("kind", c_int32),
        ("reflected", c_int32),
        ("trapezoid", c_int32),
    )


@final
class UnitLayerDescription(ctypes.Structure):
    """A linear layer as ``unit_layer_of`` in ``kernels/kernels.h`` describes it."""

    _fields_ = (
        ("draws", c_int64),
        ("rows", c_int64),
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("x", c_void_p),
        ("weights", c_void_p),
        ("bias", c_void_p),
        ("x_apart", c_int64),
        ("stride", c_int64),
        ("weights_apart", c_int64),
        ("bias_apart", c_int64),
        ("kept_inputs", c_void_p),
        ("kept_outputs", c_void_p),
        ("out", c_void_p),
        ("scale", c_float),
        ("relu", c_int32),
        ("sigma", c_void_p),
        ("key", c_uint64),
        ("draw", c_int64),
        ("start", c_int64),
    )


@final
class DropoutDescription(ctypes.Structure):
    """Dropout as ``dropout_of`` in ``kernels/kernels.h`` describes it."""

    _fields_ = (("mask", MaskDescription), ("key", c_uint64))


@final
class RowLayerDescription(ctypes.Structure):
    """A linear layer as ``row_layer_of`` in ``kernels/kernels.h`` describes it."""

    _fields_ = (
        ("draw", c_int64),
        ("draws", c_int64),
        ("rows", c_int64),
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("x", c_void_p),
        ("panels", c_void_p),
        ("bias", c_void_p),
        ("x_apart", c_int64),
        ("before", POINTER(DropoutDescription)),
        ("after", POINTER(DropoutDescription)),
        ("out", c_void_p),
        ("relu", c_int32),
    )


@final
class MatmulDescription(ctypes.Structure):
    """A product of matrices as ``matmul_of`` in ``kernels/kernels.h`` describes it."""

    _fields_ = (
        ("rows", c_int64),
        ("columns", c_int64),
        ("inner", c_int64),
        ("left", c_void_p),
        ("left_row", c_int64),
        ("left_inner", c_int64),
        ("right", c_void_p),
        ("right_inner", c_int64),
        ("right_column", c_int64),
        ("bias", c_void_p),
        ("out", c_void_p),
        ("out_row", c_int64),
        ("out_column", c_int64),
        ("left_sums", c_void_p),
        ("with", c_void_p),
        ("with_sums", c_void_p),
        ("factor", c_void_p),
        ("factors", c_int64),
        ("times", c_float),
        ("squared", c_int32),
    )


_NOISE = (c_uint64, c_int64, c_int64)  # key, draw, draws or entries
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "dubio_best_level": (),
    "dubio_level": (),
    "dubio_use_level": (c_int,),
    "dubio_use_openmp": (c_void_p, c_void_p, c_void_p),
    "dubio_has_openmp": (),
    "dubio_philox": (POINTER(c_uint32), c_uint64, POINTER(c_uint32)),
    "dubio_fill": (c_int32, *_NOISE, c_int64, c_void_p, c_int),
    "dubio_masked": (
        POINTER(MaskDescription), *_NOISE, c_int64, c_void_p, c_int64, c_void_p, c_int,
    ),
    "dubio_masked_backward": (
        POINTER(MaskDescription), *_NOISE, c_void_p, c_void_p, c_void_p, c_void_p, c_int,
    ),
    "dubio_sample": (
        c_int32, *_NOISE, c_int64, c_void_p, c_void_p, c_void_p, c_float, c_float, c_void_p,
        POINTER(c_double), c_int,
    ),
    "dubio_spread": (*_NOISE, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_int),
    "dubio_sample_backward": (
        c_int32, *_NOISE, c_int64, c_void_p, c_void_p, c_void_p, c_float, c_float, c_float,
        c_void_p, c_void_p, c_void_p, c_void_p, c_int,
    ),
    "dubio_activate": (
        POINTER(MaskDescription), *_NOISE, c_int64, c_void_p, c_int64, c_int32, c_void_p, c_int,
    ),
    "dubio_width": (),
    "dubio_unit_layer": (POINTER(UnitLayerDescription), c_int),
    "dubio_row_layer": (POINTER(RowLayerDescription), c_int),
    "dubio_panels": (c_int64, c_int64, c_int64, c_void_p, c_int64, c_int64, c_void_p, c_int),
    "dubio_beats_torch": (),
    "dubio_matmul": (POINTER(MatmulDescription), c_int),
    "dubio_columns": (
        c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_float, c_void_p,
        c_void_p, c_int,
    ),
    "dubio_divergence": (
        c_int64, c_int64, c_int64, c_void_p, c_void_p, c_float, POINTER(c_double), c_void_p,
        c_void_p, c_int,
    ),
    "dubio_local": (*_NOISE, c_void_p, c_void_p, c_void_p, c_void_p, c_int),
}  # fmt: skip


@final
@dataclass(frozen=True)
class Kernels:
    """The implementation that makes the noise of tensors on the CPU.

    Attributes:
        native: Whether it is the compiled kernels; otherwise torch makes the same numbers.
        level: The instruction set in use: plain, avx2 or avx512; empty without kernels.
        reason: Why this implementation is used.
    """

    native: bool
    level: str
    reason: str

    def __str__(self) -> str:
        made = f"compiled kernels, {self.level}" if self.native else "torch"
        return f"noise by {made}: {self.reason}"


def load(path: Path) -> ctypes.CDLL:
    """Load a library of kernels and declare its functions; raise OSError if it is none."""
    library = ctypes.CDLL(str(path))
    for name, arguments in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise OSError(f"{path.name} has no {name}: it is of another version") from error
        function.argtypes = arguments
        function.restype = None if name == "dubio_philox" else c_int
        if not name.endswith(("level", "width", "torch", "has_openmp")):
            function.errcheck = _check
    return library


def _check(status: int | None, function: Any, arguments: tuple[Any, ...]) -> None:
    """Functions return 0, or −1 if there is no memory."""
    if status:
        raise MemoryError(
            f"{function.__name__}: expected memory for a table of rates or units, got none; use "
            f"fewer units at a time"
        )


def _openmp() -> tuple[int | None, ...]:
    """Return the addresses of OpenMP's functions, if torch has brought them along."""
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    try:
        library = ctypes.CDLL(None)  # whatever the process has loaded
        return tuple([ctypes.cast(getattr(library, name), c_void_p).value for name in names])
    except (AttributeError, OSError, TypeError):  # no such functions, or another kind of system
        return (None,) * len(names)


def _start() -> tuple[ctypes.CDLL | None, str]:
    """Return the library, and a word on it."""
    folder = Path(__file__).parent
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    if wanted == "0":
        return None, f"{VARIABLE}=0"
    if wanted not in ("", "1", *LEVELS):
        raise ValueError(
            f"{VARIABLE}: expected 0, 1, {', '.join(LEVELS)} or nothing, got {wanted!r}; 0 "
            f"switches the compiled kernels off"
        )
    try:
        word, *digests = (folder / REPORT).read_text(encoding="utf-8").splitlines() or [""]
        if not (folder / LIBRARY).is_file():
            return None, word
        if f"library {digest(folder / LIBRARY)}" not in digests:
            return None, f"{LIBRARY} is damaged, or of another build; install dubio again"
        if f"sources {digest(*sources())}" not in digests:
            return None, "the sources have changed since they were compiled; install dubio again"
        library = load(folder / LIBRARY)
    except FileNotFoundError:
        return None, "not built: dubio was not installed by pip; run pip install"
    except (OSError, UnicodeError) as error:
        return None, f"cannot be loaded: {error}"
    library.dubio_use_level(LEVELS.index(wanted) if wanted in LEVELS else len(LEVELS) - 1)
    if sys.platform == "linux":
        library.dubio_use_openmp(*_openmp())
    return library, f"{word}, {VARIABLE}={wanted}" if wanted else word


LOADED, _WORD = _start()


def kernels() -> Kernels:
    """Return which implementation makes the noise of tensors on the CPU, and why.

    The kernels are compiled when dubio is installed, if there is a C compiler. Without them, on
    other devices and for types other than float32, torch makes the same numbers, more slowly. The
    environment variable ``DUBIO_NATIVE`` chooses at import: 0 for torch; plain, avx2 or avx512 for
    at most these instructions.
    """
    if LOADED is None:
        return Kernels(False, "", _WORD)
    return Kernels(True, LEVELS[LOADED.dubio_level()], _WORD)
