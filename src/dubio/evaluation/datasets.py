"""Data by name, or from a file: tensors x and y, a batch at a time."""

import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import torch
from torch import Tensor

from dubio import data
from dubio.evaluation.errors import EvaluationError, first_sentence
from dubio.evaluation.state import dense, read_tensors

FILES = (".npz", ".pt", ".safetensors")


@final
@dataclass(frozen=True, eq=False)
class Data:
    """Inputs and targets of an evaluation.

    Attributes:
        name: The name that was asked for.
        x: Inputs, rows first.
        y: Targets, or None if there are none.
        source: Where they come from.
        pixels: Whether x holds bytes of images, which become numbers in [0, 1].
    """

    name: str
    x: Tensor
    y: Tensor | None
    source: str
    pixels: bool = False

    def __post_init__(self) -> None:
        if self.x.ndim == 0 or len(self.x) == 0:
            raise EvaluationError(
                f"{self.name}: expected x with at least one row, got shape {tuple(self.x.shape)}"
            )
        if self.y is not None and (self.y.ndim == 0 or len(self.y) != len(self.x)):
            raise EvaluationError(
                f"{self.name}: expected a target for each of {len(self.x)} rows of x, got y of "
                f"shape {tuple(self.y.shape)}; rows come first in both"
            )

    def __len__(self) -> int:
        return len(self.x)

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yield inputs and targets in batches of this many rows, in order."""
        for start in range(0, len(self.x), size):
            rows = slice(start, start + size)
            x = self.x[rows].float() / 255 if self.pixels else self.x[rows]
            yield x, None if self.y is None else self.y[rows]


def read_data(name: str) -> Data:
    """Read data by name or from a file.

    Args:
        name: ``digits`` (8 × 8, part of scikit-learn), ``mnist``, ``fashion-mnist``, ``notmnist``
            or ``cifar10``: images (N, C, H, W) in [0, 1]. By default the test part; ``mnist:train``
            is the other one, and digits also have ``digits:validation``. Or a file with ``x`` and
            ``y``: ``.npz``, ``.safetensors``, or a dict in a ``.pt``.
    """
    path = Path(name)
    if path.suffix in FILES:
        return _read_file(path)
    known, _, part = name.partition(":")
    if known not in _NAMED or part not in ("", *_NAMED[known]):
        parts = (f"{known}:{part}" for known, parts in _NAMED.items() for part in parts)
        raise EvaluationError(
            f"data: expected a file ({', '.join(FILES)}) or one of {', '.join([*_NAMED, *parts])}; "
            f"got {name!r}"
        )
    try:
        return _digits(name, part or "test") if known == "digits" else _images(known, part)
    except data.DataError as error:
        raise EvaluationError(str(error)) from error


def _read_file(path: Path) -> Data:
    found = _read_npz(path) if path.suffix == ".npz" else read_tensors(path, "data")
    tensors = found if isinstance(found, Mapping) else {}
    x, y = tensors.get("x"), tensors.get("y")
    if not isinstance(x, Tensor) or not isinstance(y, Tensor | None):
        raise EvaluationError(
            f"data: expected tensors x and y in {path}, got {', '.join(map(str, tensors)) or found}"
            "; name them so"
        )
    for name, tensor in (("x", x), ("y", y)):
        if tensor is not None and (not dense(tensor) or tensor.is_complex()):
            raise EvaluationError(
                f"data: expected {name} as a dense tensor of real numbers in {path}, got a nested, "
                "sparse, quantized or complex one; save it as rows of equal shape"
            )
    return Data(str(path), x.detach(), None if y is None else y.detach(), str(path))


def _read_npz(path: Path) -> dict[str, Tensor]:
    """Read numbers only: arrays of objects are pickles, and are refused."""
    if not path.is_file():
        raise EvaluationError(f"data: expected a file, got {path}, which does not exist")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("not a zip archive")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: _tensor(arrays[name]) for name in arrays.files if name in ("x", "y")}
    except Exception as error:  # whatever bytes may bring about
        raise EvaluationError(
            f"data: expected arrays of numbers, got {path}, which was refused and not run "
            f"({first_sentence(error)}); save with np.savez(path, x=x, y=y)"
        ) from error


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))


def _digits(name: str, part: str) -> Data:
    """Return 500 rows to train on, 300 to validate and 997 to test."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    images = torch.tensor(bundle.images, dtype=torch.float32).unsqueeze(1) / 16  # (N, 1, 8, 8)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train, validation, test = order.split((500, 300, len(order) - 800))
    rows = {"train": train, "validation": validation, "test": test}[part]
    labels = torch.tensor(bundle.target)
    return Data(name, images[rows], labels[rows], f"digits of scikit-learn, {part}")


def _images(name: str, part: str) -> Data:
    split: Literal["train", "test"] = "train" if part == "train" else "test"
    loaders: dict[str, Callable[[], data.Images]] = {
        "mnist": lambda: data.mnist(split),
        "fashion-mnist": lambda: data.fashion_mnist(split),
        "notmnist": data.notmnist,
        "cifar10": lambda: data.cifar10(split),
    }
    found = loaders[name]()
    images = found.images if found.images.ndim == 4 else found.images.unsqueeze(1)
    named = f"{name}:{part}" if part else name
    return Data(named, images, found.labels, found.source, pixels=True)


_NAMED: dict[str, tuple[str, ...]] = {
    "digits": ("train", "validation"),
    "mnist": ("train",),
    "fashion-mnist": ("train",),
    "notmnist": (),
    "cifar10": ("train",),
}
