"""Trunks: networks that have learned from ImageNet, up to where classes come in."""

from typing import Literal, final

import torch
from torch import Tensor, nn

from dubio.data import Weights, imagenet_weights
from dubio_studies.networks.efficientnet_lite import EfficientNetLite0
from dubio_studies.networks.vgg import VGG

TrunkName = Literal["efficientnet-lite0", "vgg16", "vgg19"]


@final
class Trunk(nn.Module):
    """From bytes to features: photographs are enlarged, prepared and looked at.

    Args:
        layers: From prepared photographs to features of any shape.
        weights: Of these layers, and how to prepare photographs for them.
        size: Pixels of an edge of what the layers see.
    """

    def __init__(self, layers: nn.Module, weights: Weights, size: int) -> None:
        super().__init__()
        self.layers = layers
        self.weights = weights
        self.size = size

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, H, W) uint8 -> (B, D)
        """Features; enlarged bilinearly, as the paper's photographs are."""
        prepared = self.weights.prepare(images)
        seen = nn.functional.interpolate(prepared, size=(self.size, self.size), mode="bilinear")
        features: Tensor = self.layers(seen.contiguous(memory_format=torch.channels_last))
        return features.flatten(1)


def trunk(name: TrunkName, size: int) -> Trunk:
    """A trunk in eval mode.

    - ``efficientnet-lite0``: 1,280 means over the photograph.
    - ``vgg16``, ``vgg19``: 512 channels at size/32 × size/32 places.
    """
    weights = imagenet_weights(name)
    layers: nn.Module
    if name == "efficientnet-lite0":
        whole = EfficientNetLite0()
        weights.load_into(whole)
        layers = _Means(whole)
    else:
        layers = VGG(16 if name == "vgg16" else 19, 10, hidden=1).features
        weights.load_into(layers)
    layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Trunk(layers, weights, size).eval()


@final
class _Means(nn.Module):
    """What the last layer of EfficientNet sees."""

    def __init__(self, whole: EfficientNetLite0) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, H, W) -> (B, 1280)
        return self.whole.features(images)
