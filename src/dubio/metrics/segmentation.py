"""Scores of label maps: global accuracy, and intersection over union (IoU).

IoU of class k = true positives / (true positives + false positives + false negatives). Places
whose label is void count nowhere, whatever was predicted there. A class that neither the labels nor
the predictions have is left out of means; one that was only predicted has an IoU of 0.
"""

from typing import Any, final

import torch
from torch import Tensor

from dubio.metrics.reading import (
    Classifiable,
    check_classes,
    check_labels,
    check_shape,
    read_classified,
)
from dubio.metrics.states import Average, Summed, average, check_counted
from dubio.noise.float64 import with_float64


def confusion(
    prediction: Classifiable, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """Count how often label i was predicted as j, image by image: `(B, K, K)`.

    The prediction may also be integer labels `(B, *P)`, here and in all functions below.
    """
    if isinstance(prediction, Tensor) and not prediction.is_floating_point():
        check_shape(prediction, target.shape, "prediction", "the targets")
        known = check_labels(target, num_classes, void)
        labels, predicted = target.where(known, 0), prediction.where(known, 0)
        check_labels(predicted, num_classes, None, "prediction")
    else:
        seen = read_classified(prediction, target, void)
        check_classes(seen.probabilities.shape[-1], num_classes)
        known, labels, predicted = seen.known, seen.labels, seen.predicted
    images = torch.arange(len(labels), device=labels.device)
    image = images.reshape(-1, *[1] * (labels.ndim - 1)).expand_as(labels)
    place = (image * num_classes + labels) * num_classes + predicted
    counts = torch.bincount(place[known], minlength=len(labels) * num_classes**2)
    return with_float64(counts.reshape(-1, num_classes, num_classes))


def global_accuracy(
    prediction: Classifiable, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """Return the share of correctly predicted pixels over the whole data set."""
    return _accuracy(confusion(prediction, target, num_classes, void=void).sum(0))


def class_iou(
    prediction: Classifiable, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """Return the IoU of every class over the whole data set: `(K,)`, NaN if it is absent."""
    return _iou(confusion(prediction, target, num_classes, void=void).sum(0))


def mean_iou(
    prediction: Classifiable, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """Return the mean over classes of their IoU over the whole data set."""
    return class_iou(prediction, target, num_classes, void=void).nanmean()


def image_iou(
    prediction: Classifiable, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """Return the mean over images of the mean IoU of each, as in the code of Boluki et al. 2020.

    It differs from `mean_iou`: a class counts only in the images where it occurs, and there as much
    as any other. Images that are all void are ignored.
    """
    return average(_image_means(prediction, target, num_classes, void), "image_iou")


class _Confusion(Summed):
    """The confusion matrix of the whole data set."""

    higher_is_better = True

    def __init__(self, num_classes: int, *, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(num_classes, num_classes, **kwargs)
        self.num_classes, self.void = num_classes, void

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch."""
        counts = confusion(prediction, target, self.num_classes, void=self.void)
        self.sums = self.sums + counts.sum(0)


@final
class GlobalAccuracy(_Confusion):
    """`global_accuracy` over batches and processes."""

    def compute(self) -> Tensor:
        """Return the share."""
        return _accuracy(self.sums)


@final
class ClassIoU(_Confusion):
    """`class_iou` over batches and processes."""

    def compute(self) -> Tensor:
        """Return the IoU of every class, `(K,)`."""
        return _iou(self.sums)


@final
class MeanIoU(_Confusion):
    """`mean_iou` over batches and processes."""

    def compute(self) -> Tensor:
        """Return the mean."""
        return _iou(self.sums).nanmean()


@final
class ImageIoU(Average):
    """`image_iou` over batches and processes."""

    higher_is_better = True

    def __init__(self, num_classes: int, *, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes, self.void = num_classes, void

    def update(self, prediction: Classifiable, target: Tensor) -> None:
        """Add a batch of images."""
        self.add(_image_means(prediction, target, self.num_classes, self.void))


def _accuracy(counts: Tensor) -> Tensor:
    check_counted(int(counts.sum()), "global_accuracy")
    return counts.diagonal().sum() / counts.sum().double()


def _iou(counts: Tensor) -> Tensor:
    """`(..., K, K)` to `(..., K)`; NaN for a class that is nowhere."""
    check_counted(int(counts.sum()), "mean_iou")
    both = counts.diagonal(dim1=-2, dim2=-1)
    return both / (counts.sum(-1) + counts.sum(-2) - both).double()


def _image_means(
    prediction: Classifiable, target: Tensor, num_classes: int, void: int | None
) -> Tensor:
    counts = confusion(prediction, target, num_classes, void=void)
    counts = counts[counts.sum((1, 2)) > 0]
    return _iou(counts).nanmean(-1) if len(counts) else counts.new_empty(0)
