"""The middle and the way up of FC-DenseNet-103 on a small trunk that knows ImageNet.

Jégou et al. (2017) train 103 layers from nothing, for days. Here EfficientNet-Lite0 is the way
down; behind it stand their middle block, of 15 layers, and a shorter way up: 7, 5 and 4 layers.
"""

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dubio.data import Weights
from dubio_studies.networks.efficientnet_lite import SCALES, EfficientNetLite0
from dubio_studies.networks.tiramisu import DenseBlock, TransitionUp

MIDDLE = 15
UP = (7, 5, 4)
GROWTH = 16


class TiramisuLite(nn.Module):
    """A network for segmentation. Its outputs are logits of the input's resolution.

    The middle block works at a 16th of the resolution, on features of the trunk of a 16th and a
    32nd. The way up ends at a half; logits are interpolated from there. There is no dropout: see
    `dubio.rules.mask_inputs`.

    Args:
        classes: How many classes there are.
        middle: Layers of the middle block.
        up: Layers of the blocks at an 8th, a quarter and a half of the resolution.
        growth: Channels that a layer adds.
    """

    def __init__(
        self,
        classes: int,
        *,
        middle: int = MIDDLE,
        up: tuple[int, int, int] = UP,
        growth: int = GROWTH,
    ) -> None:
        super().__init__()
        if min(classes, middle, growth, *up) < 1 or len(up) != 3:
            raise ValueError(
                "classes, middle, up, growth: expected whole numbers from 1, three of them for up, "
                f"got {classes}, {middle}, {up} and {growth}."
            )
        self.trunk = EfficientNetLite0()
        del self.trunk.last, self.trunk.head  # which are for the classes of ImageNet
        *skips, sixteenth, deepest = SCALES
        self.middle = DenseBlock(sixteenth + deepest, growth, middle, 0.0)
        self.transitions_up, self.up = nn.ModuleList(), nn.ModuleList()
        added = self.middle.added
        channels = 0
        for count, skip in zip(up, reversed(skips), strict=True):
            self.transitions_up.append(TransitionUp(added))
            channels = added + skip
            self.up.append(DenseBlock(channels, growth, count, 0.0))
            added = count * growth
        self.last = nn.Conv2d(channels + added, classes, 1)
        self._frozen = False
        for module in (*self.middle.modules(), *self.transitions_up.modules(), *self.up.modules()):
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def load_trunk(self, weights: Weights) -> None:
        """Give the trunk what it has learned from ImageNet."""
        whole = EfficientNetLite0()
        weights.load_into(whole)
        del whole.last, whole.head
        self.trunk.load_state_dict(whole.state_dict())

    def freeze_trunk(self) -> Self:
        """From now on the trunk does not learn, and its BatchNorm uses the statistics it has."""
        self._frozen = True
        self.trunk.requires_grad_(False)
        return self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Train or eval mode; a frozen trunk stays in eval mode."""
        super().train(mode)
        if self._frozen:
            self.trunk.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, H, W), 0 to 255 -> (B, K, H, W)
        """Logits of every pixel."""
        *skips, sixteenth, deepest = self.trunk.scales((images.float() - 127.0) / 128.0)
        wide = F.interpolate(deepest, sixteenth.shape[-2:], mode="bilinear")
        x, added = self.middle(torch.cat([sixteenth, wide], dim=1))
        for block, transition in zip(self.up, self.transitions_up, strict=True):
            x, added = block(transition(added, skips.pop()))
        logits: Tensor = self.last(x)
        return F.interpolate(logits, images.shape[-2:], mode="bilinear")
