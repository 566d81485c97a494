"""Scenes as a network sees them while it learns: mirrored, nearer, brighter or darker."""

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio_studies.scenes.images import Labelled


@final
class AugmentedScenes:
    """Batches of scenes in a new order every epoch, changed at random by torch's generator.

    Every scene is mirrored with probability ½, a part of it is enlarged to its size, and its
    brightness and contrast change.

    Args:
        scenes: What to learn from.
        batch_size: Scenes of a batch; the last one may have fewer.
        zoom: The largest enlargement.
        light: The largest change of brightness and of contrast, as a share.
        copies: How often a scene is in its batch, each time the same.
    """

    def __init__(
        self,
        scenes: Labelled,
        batch_size: int,
        *,
        zoom: float = 1.6,
        light: float = 0.3,
        copies: int = 1,
    ) -> None:
        if zoom < 1.0 or not 0.0 <= light < 1.0:
            raise ValueError(
                f"zoom, light: expected at least 1 and a share in [0, 1), got {zoom} and {light}."
            )
        self._scenes = scenes
        self._batch_size = batch_size
        self._zoom, self._light, self._copies = zoom, light, copies

    def __len__(self) -> int:
        return -(-len(self._scenes.images) // self._batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.randperm(len(self._scenes.images)).split(self._batch_size):
            seen, named = self._changed(self._scenes.images[rows], self._scenes.labels[rows])
            yield seen.repeat_interleave(self._copies, 0), named.repeat_interleave(self._copies, 0)

    def _changed(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels from 0 to 255 as floats, and labels."""
        batch = len(images)
        scale = self._zoom ** -torch.rand(batch)  # side of the part, as a share
        mirror = torch.rand(batch).lt(0.5).float().mul(-2).add(1)
        shift = (torch.rand(2, batch) * 2 - 1) * (1 - scale)
        maps = torch.zeros(batch, 2, 3)
        maps[:, 0, 0], maps[:, 1, 1] = scale * mirror, scale
        maps[:, 0, 2], maps[:, 1, 2] = shift
        grid = F.affine_grid(maps, [batch, 1, *images.shape[-2:]], align_corners=False)
        seen = F.grid_sample(
            images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False
        )
        named = F.grid_sample(
            labels[:, None].float(), grid, mode="nearest", padding_mode="border",
            align_corners=False,
        )  # fmt: skip
        contrast, brightness = 1 + self._light * (torch.rand(2, batch, 1, 1, 1) * 2 - 1)
        means = seen.mean((1, 2, 3), keepdim=True)
        lit = ((seen - means) * contrast + means) * brightness
        return lit.clamp(0, 255), named[:, 0].long()
