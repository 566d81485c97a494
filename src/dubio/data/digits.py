"""MNIST and similar data sets: small grey images in the IDX format."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from dubio.data.archives import read_bytes
from dubio.data.dataset import Dataset, Form, Loaded
from dubio.data.errors import DataError
from dubio.data.registry import published


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Images(Loaded):
    """Images with one label each."""

    images: Tensor  # (N, H, W) grey or (N, 3, H, W) RGB, uint8
    labels: Tensor  # (N,)
    classes: tuple[str, ...]


_PREFIXES = {"train": "train", "test": "t10k"}


def _idx(folder: str, *prefixes: str, text: str = "original gzips of IDX") -> Form:
    kinds = ("images-idx3", "labels-idx1")
    names = (f"{prefix}-{kind}-ubyte.gz" for prefix in prefixes for kind in kinds)
    return Form(text, tuple(published(f"{folder}/{name}") for name in names))


_MNIST = Dataset(
    name="mnist",
    title="MNIST",
    licence="CC BY-SA 3.0, as commonly stated",
    cite="LeCun, Bottou, Bengio, Haffner 1998",
    page="http://yann.lecun.com/exdb/mnist/",
    forms=(_idx("mnist", *_PREFIXES.values()),),
)
_FASHION_MNIST = Dataset(
    name="fashion-mnist",
    title="Fashion-MNIST",
    licence="MIT",
    cite="Xiao, Rasul, Vollgraf 2017",
    page="https://github.com/zalandoresearch/fashion-mnist",
    forms=(_idx("fashion-mnist", *_PREFIXES.values()),),
)
_NOTMNIST = Dataset(
    name="notmnist",
    title="notMNIST, sample of 10,000",
    licence="MIT (the repository with the sample, with the author's permission)",
    cite="Bulatov 2011",
    page="http://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html",
    forms=(
        _idx("notmnist", "t10k"),
        _idx("notmnist", "notmnist-t10k", text="original gzips of IDX under another name"),
    ),
)
DATASETS = (_MNIST, _FASHION_MNIST, _NOTMNIST)

_FASHION_CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def mnist(split: Literal["train", "test"]) -> Images:
    """Load handwritten digits, 28 × 28: 60,000 for training or 10,000 for testing."""
    return _read(_MNIST, tuple("0123456789"), split)


def fashion_mnist(split: Literal["train", "test"]) -> Images:
    """Load pieces of clothing, 28 × 28: 60,000 for training or 10,000 for testing."""
    return _read(_FASHION_MNIST, _FASHION_CLASSES, split)


def notmnist() -> Images:
    """Load letters A to J in many fonts, 28 × 28: a random sample, 1,000 of each."""
    return _read(_NOTMNIST, tuple("ABCDEFGHIJ"), "train")


def _read(dataset: Dataset, classes: tuple[str, ...], split: str) -> Images:
    if split not in _PREFIXES:
        raise ValueError(f"split: expected train or test, got {split!r}")
    copy = dataset.locate()
    first = 2 * list(_PREFIXES).index(split)
    images, labels = map(_read_idx, copy.paths[first : first + 2])
    return Images(source=copy.source, images=images, labels=labels.long(), classes=classes)


def _read_idx(path: Path) -> Tensor:
    """Return two zero bytes, the type (8 for bytes), the number of sizes, the sizes, the values."""
    content = read_bytes(path)
    dims = content[3] if content.startswith(b"\0\0\x08") else 0
    sizes = np.frombuffer(content, dtype=">u4", count=dims, offset=4).tolist()
    start = 4 + 4 * dims
    if not dims or len(content) != start + math.prod(sizes):
        raise DataError(f"{path}: expected IDX with bytes, got {content[:start]!r} in front")
    values = np.frombuffer(content, dtype=np.uint8, offset=start).reshape(sizes)
    return torch.from_numpy(values.copy())
