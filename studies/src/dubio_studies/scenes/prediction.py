"""Predictions of scenes: of one pass without noise, or averaged over draws of the noise."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

import dubio
from dubio_studies.scenes.images import Labelled
from dubio_studies.scenes.likelihood import LIKELIHOOD

BATCH = 4  # scenes at a time


@final
class Predicted(NamedTuple):
    """What a network says of some scenes.

    Attributes:
        probabilities: Of the classes.  # (B, K, H, W)
        information: Between prediction and network, in nats; None without draws.  # (B, H, W)
        labels: The truth.  # (B, H, W)
    """

    probabilities: Tensor
    information: Tensor | None
    labels: Tensor


Predict = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""From images to probabilities and mutual information."""


def predictions(predict: Predict, scenes: Labelled) -> Iterator[Predicted]:
    """Batch by batch."""
    for images, labels in zip(scenes.images.split(BATCH), scenes.labels.split(BATCH), strict=True):
        yield Predicted(*predict(images), labels.long())


def passed_once(network: nn.Module) -> Predict:
    """One pass without noise; a network in eval mode, with running statistics of BatchNorm."""
    device = next(network.parameters()).device

    def predict(images: Tensor) -> tuple[Tensor, None]:
        with torch.no_grad():
            return LIKELIHOOD.mean(network(images.to(device))[None])[0].cpu(), None

    return predict


def drawn(network: nn.Module, draws: int, generator: torch.Generator) -> Predict:
    """An average over draws of the noise."""
    device = next(network.parameters()).device
    predictor = dubio.Predictor(network, draws=draws, likelihood=LIKELIHOOD)

    def predict(images: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            predictive = predictor(images.to(device), generator)
            return predictive.mean.cpu(), predictive.mutual_information.cpu()

    return predict
