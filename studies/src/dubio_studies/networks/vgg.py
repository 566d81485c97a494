"""VGG (Simonyan and Zisserman 2015), with the head of Boluki et al. 2020, section 3.2."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

WIDTHS = (64, 128, 256, 512, 512)
CONVOLUTIONS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def head(
    features: int, classes: int, dropout: Callable[[], nn.Module], hidden: int = 4096
) -> nn.Sequential:
    """Two hidden layers, each followed by dropout, and the logits.

    Args:
        features: How many come in.
        classes: How many logits go out.
        dropout: Makes what follows each hidden layer.
        hidden: Units of each hidden layer.
    """
    return nn.Sequential(
        nn.Linear(features, hidden), nn.ReLU(), dropout(),
        nn.Linear(hidden, hidden), nn.ReLU(), dropout(),
        nn.Linear(hidden, classes),
    )  # fmt: skip


class VGG(nn.Module):
    """Blocks of 3 × 3 convolutions with rectifiers, each followed by pooling, and the head.

    Args:
        depth: 16 or 19 layers with weights.
        classes: How many classes there are.
        dropout: Makes what follows each hidden layer of the head.
        hidden: Units of each hidden layer of the head.
    """

    def __init__(
        self,
        depth: Literal[16, 19],
        classes: int,
        dropout: Callable[[], nn.Module] = nn.Dropout,
        hidden: int = 4096,
    ) -> None:
        super().__init__()
        if depth not in CONVOLUTIONS:
            raise ValueError(f"depth: expected 16 or 19, got {depth!r}.")
        layers: list[nn.Module] = []
        channels = 3
        for width, count in zip(WIDTHS, CONVOLUTIONS[depth], strict=True):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(7)
        self.head = head(channels * 49, classes, dropout, hidden)

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, H, W) -> (B, K)
        """Logits."""
        if images.dim() != 4 or min(images.shape[-2:]) < 32:
            raise ValueError(
                f"images: expected shape (B, 3, H, W) with H and W of at least 32, got "
                f"{tuple(images.shape)}; enlarge them, the network was made for 224 × 224."
            )
        logits: Tensor = self.head(self.pool(self.features(images)).flatten(1))
        return logits
