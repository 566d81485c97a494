"""Scores of label maps: global accuracy, and intersection over union (IoU).

IoU of class k = true positives / (true positives + false positives + false negatives). Places
whose label is void count nowhere, whatever was predicted there. A class that neither the labels nor
the predictions have is left out of means; one that was only predicted has an IoU of 0.
"""

from typing import Any, final

import torch
from torch import Tensor
from torchmetrics import Metric

from dubio.metrics.reading import check_labels, check_shape, read_classified
from dubio.metrics.states import Average, average, check_counted
from dubio.predictive.predictive import Predictive


def confusion(
    prediction: Predictive | Tensor, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """How often label i was predicted as j, image by image: `(B, K, K)`.

    Args:
        prediction: A `Predictive` of labels, probabilities `(B, K, *P)`, or integer labels
            `(B, *P)`.
        target: Integer labels `(B, *P)`.
        num_classes: K.
        void: The label of places that do not count.
    """
    if isinstance(prediction, Tensor) and not prediction.is_floating_point():
        check_shape(prediction, target.shape, "prediction", "the targets")
        known = check_labels(target, num_classes, void)
        labels, predicted = target.where(known, 0), prediction.where(known, 0)
        check_labels(predicted, num_classes, None, "prediction")
    else:
        seen = read_classified(prediction, target, void)
        if seen.probabilities.shape[-1] != num_classes:
            raise ValueError(
                f"prediction: expected {num_classes} classes, got "
                f"{seen.probabilities.shape[-1]}; pass their number as num_classes"
            )
        known, labels, predicted = seen.known, seen.labels, seen.predicted
    images = torch.arange(len(labels), device=labels.device)
    image = images.reshape(-1, *[1] * (labels.ndim - 1)).expand_as(labels)
    place = (image * num_classes + labels) * num_classes + predicted
    counts = torch.bincount(place[known], minlength=len(labels) * num_classes**2)
    return counts.reshape(-1, num_classes, num_classes)


def global_accuracy(
    prediction: Predictive | Tensor, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """The share of places of the whole data set that were predicted right."""
    return _accuracy(confusion(prediction, target, num_classes, void=void).sum(0))


def class_iou(
    prediction: Predictive | Tensor, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """The IoU of every class over the whole data set: `(K,)`, NaN where there is none."""
    return _iou(confusion(prediction, target, num_classes, void=void).sum(0))


def mean_iou(
    prediction: Predictive | Tensor, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """The mean over classes of their IoU over the whole data set."""
    return class_iou(prediction, target, num_classes, void=void).nanmean()


def image_iou(
    prediction: Predictive | Tensor, target: Tensor, num_classes: int, *, void: int | None = None
) -> Tensor:
    """The mean over images of the mean IoU of each, as the code of paper 000 has it.

    It differs from `mean_iou`: a class counts in the images where it is, and there as much as any
    other. Images that are all void are left out.
    """
    return average(_image_means(prediction, target, num_classes, void), "image_iou")


class _Confusion(Metric):
    """The confusion matrix of the whole data set.

    Args:
        num_classes: K.
        void: The label of places that do not count.
        kwargs: torchmetrics' own options.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    counts: Tensor

    def __init__(self, num_classes: int, *, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes, self.void = num_classes, void
        zeros = torch.zeros(num_classes, num_classes, dtype=torch.int64)
        self.add_state("counts", zeros, dist_reduce_fx="sum")

    def update(self, prediction: Predictive | Tensor, target: Tensor) -> None:
        """Adds a batch."""
        counts = confusion(prediction, target, self.num_classes, void=self.void)
        self.counts = self.counts + counts.sum(0)


@final
class GlobalAccuracy(_Confusion):
    """`global_accuracy` over batches and processes."""

    def compute(self) -> Tensor:
        """The share."""
        return _accuracy(self.counts)


@final
class ClassIoU(_Confusion):
    """`class_iou` over batches and processes."""

    def compute(self) -> Tensor:
        """The IoU of every class, `(K,)`."""
        return _iou(self.counts)


@final
class MeanIoU(_Confusion):
    """`mean_iou` over batches and processes."""

    def compute(self) -> Tensor:
        """The mean."""
        return _iou(self.counts).nanmean()


@final
class ImageIoU(Average):
    """`image_iou` over batches and processes.

    Args:
        num_classes: K.
        void: The label of places that do not count.
        kwargs: torchmetrics' own options.
    """

    higher_is_better = True

    def __init__(self, num_classes: int, *, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes, self.void = num_classes, void

    def update(self, prediction: Predictive | Tensor, target: Tensor) -> None:
        """Adds a batch of images."""
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
    prediction: Predictive | Tensor, target: Tensor, num_classes: int, void: int | None
) -> Tensor:
    counts = confusion(prediction, target, num_classes, void=void)
    counts = counts[counts.sum((1, 2)) > 0]
    return _iou(counts).nanmean(-1) if len(counts) else counts.new_empty(0)
