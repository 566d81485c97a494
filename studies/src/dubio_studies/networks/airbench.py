"""A small network for CIFAR-10 that learns in few epochs (after Jordan 2024, "airbench").

Its first layer is not learned: it whitens patches of 2 × 2 pixels. Three blocks of two 3 × 3
convolutions follow. Convolutions start as the identity of as many channels as they can, and the
logits are small at the start.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

PATCH = 2  # pixels of an edge of what is whitened
WIDTHS = (64, 256, 256)


class ConvolutionBlock(nn.Sequential):
    """A convolution, half the resolution, and another convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            _convolution(inputs, outputs),
            nn.MaxPool2d(2),
            _normed(outputs),
            nn.GELU(),
            _convolution(outputs, outputs),
            _normed(outputs),
            nn.GELU(),
        )


class Airbench(nn.Module):
    """From standardised photographs of 32 × 32 pixels to logits.

    Args:
        classes: How many classes there are.
        widths: Channels of the three blocks.
        drop: The rate of dropout before the last layer; 0 for none.
    """

    SCALE = 1 / 9  # of the logits

    def __init__(
        self, classes: int = 10, widths: Sequence[int] = WIDTHS, drop: float = 0.0
    ) -> None:
        super().__init__()
        if len(widths) != 3 or min(widths) < 1:
            raise ValueError(f"widths: expected three positive numbers, got {tuple(widths)}.")
        patch = 3 * PATCH**2
        self.whiten = nn.Conv2d(3, 2 * patch, PATCH)
        self.whiten.weight.requires_grad_(False)
        assert self.whiten.bias is not None
        nn.init.zeros_(self.whiten.bias)
        channels = (2 * patch, *widths)
        self.blocks = nn.Sequential(
            nn.GELU(),
            *(ConvolutionBlock(*channels[index : index + 2]) for index in range(3)),
            nn.MaxPool2d(3),
            nn.Flatten(),
            *([nn.Dropout(drop)] if drop > 0 else []),
        )
        self.last = nn.Linear(widths[-1], classes, bias=False)

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, 32, 32) -> (B, K)
        """Logits."""
        logits: Tensor = self.last(self.features(images))
        return logits * self.SCALE

    def features(self, images: Tensor) -> Tensor:  # (B, 3, 32, 32) -> (B, widths[-1])
        """What the last layer sees."""
        if images.dim() != 4 or images.shape[1:] != (3, 32, 32):
            raise ValueError(
                f"images: expected shape (B, 3, 32, 32), got {tuple(images.shape)}; resize them."
            )
        with torch.autocast(images.device.type, enabled=False):  # 8 bits are too few to whiten
            patches = self.whiten(images)
        found: Tensor = self.blocks(patches)
        return found

    def whiten_like(self, images: Tensor, least: float = 5e-4) -> None:
        """Set the first layer so that its outputs are uncorrelated and of variance one.

        Its filters are v_k/√(λ_k + least), for eigenvectors v_k and eigenvalues λ_k of the mean of
        x xᵀ over patches x, and the same with the other sign, so that a rectifier loses nothing.

        Args:
            images: Some thousand photographs, standardised.  # (N, 3, H, W)
            least: What keeps the noise of flat patches from being blown up.
        """
        patches = nn.functional.unfold(images, PATCH)  # (N, 12, places)
        rows = patches.transpose(1, 2).flatten(0, 1).double()  # (N · places, 12)
        values, vectors = torch.linalg.eigh(rows.T @ rows / len(rows))
        filters = (vectors / (values + least).sqrt()).T.reshape(-1, 3, PATCH, PATCH)
        with torch.no_grad():
            self.whiten.weight.copy_(torch.cat([filters, -filters]))


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """A 3 × 3 convolution whose first filters hand their channels on."""
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight[: min(inputs, outputs)].data)
    return layer


def _normed(channels: int) -> nn.BatchNorm2d:
    """BatchNorm with a shift that is learned, and none but unit scale."""
    layer = nn.BatchNorm2d(channels, momentum=0.4)
    layer.weight.requires_grad_(False)
    return layer
