"""Scenes and their label maps: CamVid, or blocks of colour to try it without data."""

from functools import cache
from typing import Literal, NamedTuple, final

import torch
from torch import Tensor

from dubio import data
from dubio.data import Scenes

Source = Literal["camvid", "blocks"]
"""CamVid; or made-up scenes of coloured blocks, 49 × 35 pixels."""

Split = Literal["train", "val", "test"]

CLASSES = Scenes.classes
COLOURS = Scenes.colours
VOID = Scenes.void
AVAILABLE: dict[Split, int] = {"train": 367, "val": 101, "test": 233}
"""Scenes of each split, in both sources."""

_SIZE = (35, 49)  # of blocks
_ROOTS: dict[Split, int] = {"train": 0, "val": 10_000, "test": 20_000}  # of their seeds


@final
class Labelled(NamedTuple):
    """Scenes with a class for every pixel.

    Attributes:
        images: Red, green and blue.  # (N, 3, H, W) uint8
        labels: Positions in `CLASSES`, or `VOID`.  # (N, H, W) uint8
    """

    images: Tensor
    labels: Tensor


@cache
def size_of(source: Source) -> tuple[int, int]:
    """Height and width of its scenes: CamVid may be here in full or in half size."""
    if source == "blocks":
        return _SIZE
    height, width = data.camvid("val").images.shape[-2:]
    return height, width


def load(source: Source, split: Split, count: int) -> Labelled:
    """So many scenes of a split, equally spaced: neighbours are frames of the same video."""
    if not 1 <= count <= AVAILABLE[split]:
        raise ValueError(
            f"{split}: expected from 1 to {AVAILABLE[split]} scenes, got {count}; ask for fewer."
        )
    chosen = torch.linspace(0, AVAILABLE[split] - 1, count).round().long()
    if source == "camvid":
        scenes = data.camvid(split)
        return Labelled(scenes.images[chosen], scenes.labels[chosen])
    made = [_blocks(_ROOTS[split] + int(index)) for index in chosen]
    return Labelled(*map(torch.stack, zip(*made, strict=True)))


def _blocks(seed: int) -> tuple[Tensor, Tensor]:  # (3, H, W), (H, W)
    """Sky above, a road below, blocks of other classes on them, and a rim of void."""
    generator = torch.Generator().manual_seed(seed)
    height, width = _SIZE
    labels = torch.full(_SIZE, CLASSES.index("sky"), dtype=torch.uint8)
    labels[height // 2 :] = CLASSES.index("road")
    for label in torch.randperm(len(CLASSES), generator=generator).tolist():
        top = int(torch.randint(height - 8, (), generator=generator))
        left = int(torch.randint(width - 8, (), generator=generator))
        labels[top : top + 8, left : left + 8] = label
    colours = torch.arange(12 * 3).reshape(12, 3).mul(37).remainder(200).float()
    noise = torch.randn(3, *_SIZE, generator=generator)
    images = colours[labels.long()].permute(2, 0, 1) + 25.0 * noise
    labels[:2] = VOID
    return images.clamp(0, 255).byte(), labels
