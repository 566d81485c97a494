"""CIFAR-10 in three parts, as a trunk sees it or as bytes."""

from functools import lru_cache
from typing import Literal, NamedTuple, final

import torch
from torch import Tensor

from dubio.data import cifar10
from dubio_studies.photographs.features import cached_features
from dubio_studies.photographs.trunks import TrunkName, trunk

Source = Literal["cifar10", "clusters"]
"""CIFAR-10; or made-up features in ten overlapping clusters, to try it without data."""

CLASSES = 10
VALIDATION = 5_000  # photographs that nobody learns from
LARGEST = 50_000 - VALIDATION
_DIMENSIONS = 24  # of clusters


@final
class Photographs(NamedTuple):
    """Three parts, each with labels: features (N, D) in float16, or bytes (N, 3, 32, 32).

    And what copy of the data they come from: there are lossy ones.
    """

    train: Tensor
    train_labels: Tensor
    validation: Tensor
    validation_labels: Tensor
    test: Tensor
    test_labels: Tensor
    copy: str


@final
class WatchedImages(NamedTuple):
    """What a network learns from, and what it is watched on while it does."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


@lru_cache(maxsize=2)
def load(source: Source, name: TrunkName, size: int, train: int, as_bytes: bool) -> Photographs:
    """So many photographs to learn from, 5,000 for validation and 10,000 to test.

    The 50,000 for training are shuffled once and for all: the last 5,000 are the validation. Those
    to test are shuffled too, since copies sorted by class would make batches of one class.

    Args:
        source: Where they come from.
        name: The trunk that sees them.
        size: Pixels of an edge to which they are enlarged for it.
        train: How many to learn from.
        as_bytes: Whether to return the photographs, not their features.
    """
    if source == "clusters":
        return _clusters(train)
    parts = cifar10("train"), cifar10("test")
    order = torch.randperm(len(parts[0].labels), generator=torch.Generator().manual_seed(0))
    learned, held_out = order[:train], order[-VALIDATION:]
    tested = torch.randperm(len(parts[1].labels), generator=torch.Generator().manual_seed(1))
    if as_bytes:
        seen = [part.images for part in parts]
    else:
        eye = trunk(name, size)
        seen = [cached_features(eye, part.images) for part in parts]
    labels, test_labels = (part.labels for part in parts)
    return Photographs(
        seen[0][learned],
        labels[learned],
        seen[0][held_out],
        labels[held_out],
        seen[1][tested],
        test_labels[tested],
        parts[0].source.partition(":")[0],  # the files follow
    )


def _clusters(train: int) -> Photographs:
    """Points around ten centres, near enough for errors; 200 for validation and 400 to test."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(CLASSES, _DIMENSIONS, generator=generator)
    labels = torch.randint(CLASSES, (train + 600,), generator=generator)
    noise = torch.randn(len(labels), _DIMENSIONS, generator=generator)
    points = (centres[labels] + 1.5 * noise).half()
    sizes = [train, 200, 400]
    parts = zip(points.split(sizes), labels.split(sizes), strict=True)
    (x, y), (watched, watched_labels), (seen, seen_labels) = parts
    return Photographs(x, y, watched, watched_labels, seen, seen_labels, "made up")
