"""The data of the demo and two ordinary dropout networks trained on them.

Nothing here knows of dubio: this is the code anyone would write.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

OBSERVED = ((-3.0, -1.0), (0.9, 2.9))
"""The two stretches of the curve that have data. Between them is the gap."""

NOISE = 0.1
"""Standard deviation of the noise on every observation of the curve."""


@dataclass(frozen=True)
class Curve:
    """Noisy observations of a curve: one set to train on, one held out."""

    x: Tensor  # (B, 1)
    y: Tensor  # (B, 1)
    held_out_x: Tensor  # (B, 1)
    held_out_y: Tensor  # (B, 1)


@dataclass(frozen=True)
class SmallDigits:
    """Handwritten digits, 8 × 8 pixels in [0, 1]: images (B, 1, 8, 8) and labels (B,)."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def true_curve(x: Tensor) -> Tensor:
    """The curve behind the observations.

    It is steep in the gap by choice. Dropout's doubt follows the slope as well as the data:
    trained on 0.6 x sin(1.6 x), which is level there, the same network is surer in the gap than
    at its data.
    """
    return torch.sin(2.2 * x) + 0.35 * x


def observe_curve(size: int = 100, held_out: int = 50, seed: int = 1) -> Curve:
    """Observes the curve with noise, half of the points in either stretch of ``OBSERVED``."""
    generator = torch.Generator().manual_seed(seed)

    def observe(count: int) -> tuple[Tensor, Tensor]:
        halves = (count // 2, count - count // 2)
        x = torch.cat(
            [
                low + (high - low) * torch.rand(half, 1, generator=generator)
                for half, (low, high) in zip(halves, OBSERVED, strict=True)
            ]
        )
        return x, true_curve(x) + NOISE * torch.randn(x.shape, generator=generator)

    return Curve(*observe(size), *observe(held_out))


def train_regressor(curve: Curve, steps: int = 2500, seed: int = 0) -> nn.Module:
    """Trains a multilayer perceptron with dropout on squared error; returns it in eval mode."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(1, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 1),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(net(curve.x), curve.y).backward()
        optimizer.step()
        schedule.step()
    return net.eval()


def split_digits(train_size: int = 400, seed: int = 0) -> SmallDigits:
    """Splits scikit-learn's 1797 digits at random; few to train on, so that doubt has reason."""
    bundle = load_digits()
    images = torch.tensor(bundle.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(bundle.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    train, test = order[:train_size], order[train_size:]
    return SmallDigits(images[train], labels[train], images[test], labels[test])


def train_classifier(digits: SmallDigits, epochs: int = 80, seed: int = 0) -> nn.Module:
    """Trains a small convolutional network with dropout; returns it in eval mode."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * 4 * 4, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    for _ in range(epochs):
        for batch in torch.randperm(len(digits.train_images)).split(50):
            optimizer.zero_grad()
            scores = net(digits.train_images[batch])
            F.cross_entropy(scores, digits.train_labels[batch]).backward()
            optimizer.step()
    return net.eval()
