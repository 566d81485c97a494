"""Heads with one kind of dropout each, on a network that has learned and learns no more."""

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Categorical
from dubio_studies.mnist.training import DigitTraining, trained
from dubio_studies.networks.airbench import Airbench
from dubio_studies.photographs.heads import LEARNED, Method, masked_head
from dubio_studies.photographs.images import CLASSES, WatchedImages
from dubio_studies.uncertainty.cifar_accuracy.learning import flipped, shifted, standardised

PASSES = 2  # views of a training photograph, one of them mirrored
HIDDEN = 256  # units of each of the two hidden layers
DROP = 0.5  # the rate by hand, and that from which learning starts
BATCH = 500


@final
class AirbenchTrunk(nn.Module):
    """What the last layer of a network sees, in float16."""

    def __init__(self, network: Airbench) -> None:
        super().__init__()
        self.network = network

    @torch.inference_mode()
    def forward(self, images: Tensor) -> Tensor:  # (N, 3, 32, 32) -> (N, D)
        """Features of standardised photographs."""
        with torch.autocast(images.device.type, torch.bfloat16):
            found = [self.network.features(batch).half() for batch in images.split(BATCH)]
        return torch.cat(found)


def training_views(images: Tensor) -> Iterator[Tensor]:
    """Bytes as the network saw them while it learned: shifted, and mirrored in every other view."""
    mirrored = torch.rand(len(images)) < 0.5
    for number in range(PASSES):
        yield shifted(flipped(standardised(images), mirrored ^ bool(number % 2)))


def learned_head(method: Method, name: str, epochs: int, examples: WatchedImages) -> nn.Module:
    """A head that has learned from features, or is in the cache.

    Args:
        method: Its kind of dropout.
        name: That of the network below, and what tells equal heads apart.
        epochs: Passes over the features.
        examples: Features to learn from, and to be watched on; nothing is chosen by these.
    """

    def make() -> dubio.ELBO:
        features = examples.train.shape[1]
        head = masked_head(method, features, CLASSES, hidden=HIDDEN, drop=DROP, length_scale=1.0)
        return dubio.ELBO(
            head, Categorical(), num_data=len(examples.train), estimator="trapezoid_once"
        )

    pace = 1e-2 if method in LEARNED else None
    training = DigitTraining(epochs, BATCH, 1e-3, pace)
    return trained(make, {"head": method, "on": name}, examples, training).network
