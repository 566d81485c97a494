"""FC-DenseNet, "the one hundred layers Tiramisu", for segmentation (Jégou et al. 2017).

A U-Net of dense blocks. Every layer of a block reads the block's input and all that the layers
before it have added; on the way up a block also reads the skip connection of its resolution, and
only what a block has added goes further up.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

Dropout = Literal["middle", "everywhere"]


class DenseLayer(nn.Sequential):
    """BatchNorm, ReLU and a 3 × 3 convolution that adds ``growth`` channels, then dropout."""

    def __init__(self, channels: int, growth: int, drop: float) -> None:
        super().__init__(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, growth, 3, padding=1),
            *_dropout(drop),
        )


class DenseBlock(nn.Module):
    """Layers that each read all channels before them.

    Attributes:
        added: How many channels the layers add.
    """

    def __init__(self, channels: int, growth: int, layers: int, drop: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DenseLayer(channels + i * growth, growth, drop) for i in range(layers)
        )
        self.added = layers * growth

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """All channels, and those that were added."""
        added: list[Tensor] = []
        for layer in self.layers:
            added.append(layer(x))
            x = torch.cat([x, added[-1]], dim=1)
        return x, torch.cat(added, dim=1)


class TransitionDown(nn.Sequential):
    """BatchNorm, ReLU and a 1 × 1 convolution, then dropout; half the resolution."""

    def __init__(self, channels: int, drop: float) -> None:
        super().__init__(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 1),
            *_dropout(drop),
            nn.MaxPool2d(2),
        )


class TransitionUp(nn.Module):
    """A transposed 3 × 3 convolution to twice the resolution, beside the skip connection.

    A resolution of 2n or 2n + 1 was halved to n, and n becomes 2n + 1: what is too much is cropped.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.ConvTranspose2d(channels, channels, 3, stride=2)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """The skip connection behind what comes from below."""
        height, width = skip.shape[-2:]
        return torch.cat([self.convolution(x)[..., :height, :width], skip], dim=1)


class Tiramisu(nn.Module):
    """An FC-DenseNet. Its outputs are logits of the input's resolution.

    Args:
        classes: How many classes there are.
        layers: Layers of every block: on the way down, in the middle, and as many on the way up.
        growth: Channels that a layer adds.
        first: Channels of the first convolution.
        drop: The rate of all dropouts.
        dropout: Whether there is dropout in the layers of the middle block only, or in all blocks
            and transitions, as published.
    """

    def __init__(
        self,
        classes: int,
        *,
        layers: Sequence[int],
        growth: int,
        first: int = 48,
        drop: float = 0.2,
        dropout: Dropout = "everywhere",
    ) -> None:
        super().__init__()
        if len(layers) % 2 == 0:
            raise ValueError(
                f"layers: expected as many blocks down as up and one between them, got "
                f"{len(layers)}; pass an odd number."
            )
        if dropout not in ("middle", "everywhere"):
            raise ValueError(f"dropout: expected 'middle' or 'everywhere', got {dropout!r}.")
        depth = len(layers) // 2
        elsewhere = drop if dropout == "everywhere" else 0.0
        self.first = nn.Conv2d(3, first, 3, padding=1)
        channels, skips = first, []
        self.down, self.transitions_down = nn.ModuleList(), nn.ModuleList()
        for count in layers[:depth]:
            self.down.append(DenseBlock(channels, growth, count, elsewhere))
            channels += count * growth
            self.transitions_down.append(TransitionDown(channels, elsewhere))
            skips.append(channels)
        self.middle = DenseBlock(channels, growth, layers[depth], drop)
        added = self.middle.added
        self.up, self.transitions_up = nn.ModuleList(), nn.ModuleList()
        for count in layers[depth + 1 :]:
            self.transitions_up.append(TransitionUp(added))
            channels = added + skips.pop()
            self.up.append(DenseBlock(channels, growth, count, elsewhere))
            added = count * growth
        self.last = nn.Conv2d(channels + added, classes, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, H, W) -> (B, K, H, W)
        """Logits of every pixel."""
        least = 2 ** len(self.down)
        if images.dim() != 4 or images.shape[1] != 3 or min(images.shape[-2:]) < least:
            raise ValueError(
                f"images: expected shape (B, 3, H, W) with H and W of at least {least}, got "
                f"{tuple(images.shape)}; use larger images or a network of fewer blocks."
            )
        x, skips = self.first(images), []
        for block, transition in zip(self.down, self.transitions_down, strict=True):
            x, _ = block(x)
            skips.append(x)
            x = transition(x)
        x, added = self.middle(x)
        for block, transition in zip(self.up, self.transitions_up, strict=True):
            x, added = block(transition(added, skips.pop()))
        logits: Tensor = self.last(x)
        return logits


def tiramisu56(classes: int, *, drop: float = 0.2, dropout: Dropout = "everywhere") -> Tiramisu:
    """FC-DenseNet-56: 1,376,795 parameters for 11 classes."""
    return Tiramisu(classes, layers=[4] * 11, growth=12, drop=drop, dropout=dropout)


def tiramisu67(classes: int, *, drop: float = 0.2, dropout: Dropout = "everywhere") -> Tiramisu:
    """FC-DenseNet-67: 3,463,243 parameters for 11 classes."""
    return Tiramisu(classes, layers=[5] * 11, growth=16, drop=drop, dropout=dropout)


def tiramisu103(classes: int, *, drop: float = 0.2, dropout: Dropout = "everywhere") -> Tiramisu:
    """FC-DenseNet-103: 9,322,091 parameters for 11 classes."""
    layers = [4, 5, 7, 10, 12, 15, 12, 10, 7, 5, 4]
    return Tiramisu(classes, layers=layers, growth=16, drop=drop, dropout=dropout)


def _dropout(drop: float) -> list[nn.Module]:
    return [nn.Dropout(drop)] if drop > 0 else []
