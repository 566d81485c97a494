"""EfficientNet-Lite0 (Tan and Le 2019): a small trunk for features of images.

It is EfficientNet-B0 without squeeze-and-excitation and with ReLU6. Convolutions pad as TensorFlow
does, so that its weights give what they were trained for.
"""

from torch import Tensor, nn
from torch.nn import functional as F

STAGES = (  # blocks, kernel, stride of the first, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
FEATURES = 1280
SCALES = (16, 24, 40, 112, 320)
"""Channels at a half, a quarter … a 32nd of the resolution."""
_LAST = (0, 2, 4, 10, 15)  # blocks of each resolution


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's padding "SAME".

    The output has ⌈size / stride⌉ places; what is to be padded is split evenly, an odd one goes to
    the right and below.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of the padded image."""
        pads = [
            max((-(-size // stride) - 1) * stride + kernel - size, 0)
            for size, stride, kernel in zip(
                x.shape[-2:], self.stride, self.kernel_size, strict=True
            )
        ]
        high, wide = pads
        padded = F.pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
        return super().forward(padded)


def normed(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution without bias, and BatchNorm as TensorFlow has it."""
    return [
        SameConv2d(inputs, outputs, kernel, stride, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01),
    ]


class InvertedBottleneck(nn.Module):
    """An inverted bottleneck: wider, filtered channel by channel, narrow again."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        wider = [*normed(inputs, wide), nn.ReLU6()] if expansion > 1 else []
        self.layers = nn.Sequential(
            *wider,
            *normed(wide, wide, kernel, stride, groups=wide),
            nn.ReLU6(),
            *normed(wide, outputs),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, added to its input where they have one shape."""
        out: Tensor = self.layers(x)
        return x + out if self.residual else out


class EfficientNetLite0(nn.Module):
    """The network with its 1,000 classes; `features` and `scales` are what others build on."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(*normed(3, 32, 3, 2), nn.ReLU6())
        blocks, channels = [], 32
        for count, kernel, stride, expansion, width in STAGES:
            for index in range(count):
                blocks.append(
                    InvertedBottleneck(
                        channels, width, kernel, stride if index == 0 else 1, expansion
                    )
                )
                channels = width
        self.blocks = nn.ModuleList(blocks)
        self.last = nn.Sequential(*normed(channels, FEATURES), nn.ReLU6())
        self.head = nn.Linear(FEATURES, classes)

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, H, W) -> (B, K)
        """Logits."""
        logits: Tensor = self.head(self.features(images))
        return logits

    def features(self, images: Tensor) -> Tensor:  # (B, 3, H, W) -> (B, 1280)
        """What the last layer sees: means over the image."""
        deepest = self.scales(images)[-1]
        means: Tensor = self.last(deepest).mean((2, 3))
        return means

    def scales(self, images: Tensor) -> list[Tensor]:
        """What blocks give at a half, a quarter … a 32nd of the resolution, rounded up."""
        if images.dim() != 4 or images.shape[1] != 3:
            raise ValueError(
                f"images: expected shape (B, 3, H, W), got {tuple(images.shape)}; put channels "
                "behind the batch."
            )
        x = self.stem(images)
        found = []
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index in _LAST:
                found.append(x)
        return found
