"""Predictions of label maps as scenes to be drawn."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dubio.likelihoods import Categorical
from dubio.likelihoods.discrete import check_probabilities
from dubio.metrics.reading import Classifiable, read_classified
from dubio.noise.float64 import in_float64
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio.report.scenes import Scene


def read_scenes(
    images: Tensor, prediction: Classifiable, target: Tensor, *, void: int | None = None
) -> tuple[Sequence[Scene], int]:
    """Check images and predictions of their pixels; return scenes and the number of classes.

    Args:
        images: `(B, 3, H, W)`, floats in [0, 1] or uint8.
        prediction: A `Predictive`, or probabilities, of draws `(S, B, K, H, W)` or, without mutual
            information, averaged `(B, K, H, W)`.
        target: Labels `(B, H, W)`.
        void: The label of pixels that do not count.
    """
    if isinstance(prediction, Tensor) and prediction.ndim == 5:
        advice = "pass prediction.softmax(2) of logits (draws, batch, classes, height, width)"
        check_probabilities(prediction, 2, "prediction", advice)
        likelihood = Categorical(dim=1, outputs="probabilities")
        prediction = Predictive(likelihood, StoredDraws(prediction))
    seen = read_classified(prediction, target, void)
    if seen.labels.ndim != 3:
        raise ValueError(
            f"target: expected label maps (B, H, W), got shape {tuple(target.shape)}; draw_scenes "
            "is about pixels"
        )
    pictures = _read_images(images, seen.labels.shape)
    information: Sequence[Tensor | None] = [None] * len(pictures)
    if isinstance(prediction, Predictive):
        information = prediction.mutual_information.unbind()
    scenes = [
        Scene(
            image=picture.cpu().numpy(),
            truth=truth.cpu().numpy(),
            predicted=predicted.cpu().numpy(),
            known=known.cpu().numpy(),
            entropy=entropy.detach().cpu().numpy(),
            mutual_information=None if doubt is None else doubt.detach().cpu().double().numpy(),
        )
        for picture, truth, predicted, known, entropy, doubt in zip(
            pictures, seen.labels, seen.predicted, seen.known, seen.entropy, information,
            strict=True,
        )
    ]  # fmt: skip
    return scenes, seen.probabilities.shape[-1]


def _read_images(images: Tensor, shape: torch.Size) -> Tensor:
    """As `(B, H, W, 3)` in [0, 1]."""
    rows, height, width = shape
    if not isinstance(images, Tensor) or images.shape != (rows, 3, height, width):
        found = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(
            f"images: expected a tensor ({rows}, 3, {height}, {width}), a colour for every label "
            f"of the targets, got {found}; move colours to dimension 1, and repeat that of grey "
            "images: images.expand(-1, 3, -1, -1)"
        )
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise ValueError(
            f"images: expected floats in [0, 1] or uint8, got {images.dtype}; convert them"
        )
    whole = images.dtype == torch.uint8
    pictures = in_float64(images.detach()) / (255 if whole else 1)
    low, high = map(float, pictures.aminmax())
    if not 0 <= low <= high <= 1:  # or NaN
        raise ValueError(
            f"images: expected floats in [0, 1] or uint8, got values from {low:.4g} to "
            f"{high:.4g}; undo the standardisation of the inputs: x * std + mean"
        )
    return pictures.movedim(1, -1)
