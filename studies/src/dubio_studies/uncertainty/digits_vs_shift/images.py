"""Digits to learn and to recognise, and images that are no digits."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, final

import torch
from torch import Tensor

from dubio.data import Images, fashion_mnist, mnist, notmnist

Source = Literal["mnist", "digits"]


@final
class Sets(NamedTuple):
    """Images as rows of pixels from 0 to 1, and labels.

    Attributes:
        train: To learn from.  # (N, D)
        train_labels: Their digits.  # (N,)
        test: To recognise.  # (M, D)
        test_labels: Their digits.  # (M,)
        foreign: Images of something else, by name.  # (M, D)
    """

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    foreign: Mapping[str, Tensor]


def load(source: Source, train: int, test: int, seed: int) -> Sets:
    """At most so many random images of each set, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return (_mnist if source == "mnist" else _digits)(train, test, generator)


def _mnist(train: int, test: int, generator: torch.Generator) -> Sets:
    return Sets(
        *_some(mnist("train"), train, generator),
        *_some(mnist("test"), test, generator),
        foreign={
            "Fashion-MNIST": _some(fashion_mnist("test"), test, generator)[0],
            "notMNIST": _some(notmnist(), test, generator)[0],
        },
    )


def _some(images: Images, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    chosen = torch.randperm(len(images.labels), generator=generator)[:count]
    return images.images[chosen].flatten(1) / 255.0, images.labels[chosen]


def _digits(train: int, test: int, generator: torch.Generator) -> Sets:
    """The 1797 digits of scikit-learn, 8 × 8, a quarter of them to test; foreign ones are made."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    order = torch.randperm(len(bundle.target), generator=generator)
    pixels = torch.from_numpy(bundle.data).float()[order] / 16.0
    labels = torch.from_numpy(bundle.target).long()[order]
    split = 3 * len(labels) // 4
    tested = pixels[split:][:test]
    return Sets(
        pixels[:split][:train],
        labels[:split][:train],
        tested,
        labels[split:][:test],
        foreign={
            "inverted": 1.0 - tested,
            "pixels shuffled": tested[:, torch.randperm(tested.shape[1], generator=generator)],
        },
    )
