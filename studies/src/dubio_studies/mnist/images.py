"""Handwritten digits as bytes: a quarter of the memory, and made into numbers batch by batch."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, final

import torch
from torch import Tensor, nn

from dubio.data import mnist

Source = Literal["mnist", "digits"]
"""MNIST; or the 1797 digits of scikit-learn enlarged, to try it without data."""

AVAILABLE: Mapping[Source, tuple[int, int]] = {"mnist": (60_000, 10_000), "digits": (1_347, 450)}
"""Images to learn from, and to recognise."""

PIXELS = 28 * 28
CLASSES = 10


@final
class Digits(NamedTuple):
    """Images and labels.

    Attributes:
        train: To learn from, in random order.  # (N, 28, 28) uint8
        train_labels: Their digits.  # (N,)
        test: To recognise.  # (M, 28, 28) uint8
        test_labels: Their digits.  # (M,)
    """

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


def load(source: Source, train: int, test: int, seed: int) -> Digits:
    """At most so many images to learn from, at random, and the first to recognise.

    For one seed fewer images to learn from are some of the more.
    """
    images = _mnist() if source == "mnist" else _digits()
    order = torch.randperm(len(images.train_labels), generator=torch.Generator().manual_seed(seed))[
        :train
    ]
    return Digits(
        images.train[order],
        images.train_labels[order],
        images.test[:test],
        images.test_labels[:test],
    )


def _mnist() -> Digits:
    train, test = mnist("train"), mnist("test")
    return Digits(train.images, train.labels, test.images, test.labels)


def _digits() -> Digits:
    """8 × 8 pixels with values to 16, enlarged; the last quarter to test."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    small = torch.from_numpy(bundle.images).float() * (255 / 16)
    images = nn.functional.interpolate(small[:, None], size=28, mode="bilinear")[:, 0].byte()
    labels = torch.from_numpy(bundle.target).long()
    split = 3 * len(labels) // 4
    return Digits(images[:split], labels[:split], images[split:], labels[split:])


@final
class Scaled(nn.Module):
    """Bytes as numbers from 0 to 2, as in the original Bayes by Backprop.

    The background stays 0: random weights of pixels that show nothing add no noise.
    """

    DIVISOR = 126.0

    def forward(self, images: Tensor) -> Tensor:  # uint8 or float, any shape -> float
        """Divide by 126; what is float already keeps its precision and has a gradient."""
        return images / self.DIVISOR
