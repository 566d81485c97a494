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


def predictions(
    network: nn.Module, scenes: Labelled, draws: int | None, generator: torch.Generator
) -> Iterator[Predicted]:
    """Batch by batch; BatchNorm uses its running statistics.

    Args:
        network: From pixels to logits, in eval mode.
        scenes: What to predict.
        draws: Passes to average over; None for one pass without noise.
        generator: Source of the noise.
    """
    device = next(network.parameters()).device
    predict = _passed_once(network) if draws is None else _drawn(network, draws, generator)
    for images, labels in zip(scenes.images.split(BATCH), scenes.labels.split(BATCH), strict=True):
        with torch.no_grad():
            probabilities, information = predict(images.to(device))
        yield Predicted(probabilities.cpu(), information, labels.long())


def _passed_once(network: nn.Module) -> Callable[[Tensor], tuple[Tensor, None]]:
    return lambda images: (LIKELIHOOD.mean(network(images)[None])[0], None)


def _drawn(
    network: nn.Module, draws: int, generator: torch.Generator
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    predictor = dubio.Predictor(network, draws=draws, likelihood=LIKELIHOOD)

    def predict(images: Tensor) -> tuple[Tensor, Tensor]:
        predictive = predictor(images, generator)
        return predictive.mean, predictive.mutual_information.cpu()

    return predict
