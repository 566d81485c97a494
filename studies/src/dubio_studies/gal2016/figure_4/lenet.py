"""LeNet, as Caffe has it, with the noise of seven methods."""

from typing import Literal

from torch import Tensor, nn

import dubio
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli
from dubio.priors import Gaussian
from dubio_studies.mnist.images import CLASSES, Scaled

Noise = Literal["mc", "mc-all", "concrete", "bernoulli", "bayes", "plain"]
"""Dropout before the last layer, as in the paper; before all layers but the first; there with
rates that are learned in two ways; Gaussian weights; none."""

CHANNELS, FEATURES, UNITS = (20, 50), 50 * 4 * 4, 500
START = 0.1  # of rates that are learned


def lenet(
    noise: Noise, *, drop: float, drop_channels: float, prior_sigma: float, deviation: float
) -> nn.Sequential:
    """Bytes (B, 28, 28) – 20 and 50 maps, each pooled – 500 – 10; one ReLU, before the last layer.

    Args:
        noise: What is random.
        drop: The dropout rate of units.
        drop_channels: The dropout rate of maps, where they have some.
        prior_sigma: The deviation of the Gaussian prior of random weights.
        deviation: Of random weights, at the start.
    """

    def layer(plain: nn.Module, rate: float | None = None) -> nn.Module:
        """The layer with its noise; without a rate there is no dropout before it."""
        if noise == "bayes":
            return dubio.Bayesian(plain, prior=Gaussian(prior_sigma), deviation=deviation)
        if rate is None:
            return plain
        match noise:
            case "mc":
                return dubio.Masked(plain, Bernoulli(drop=rate)) if is_last(plain) else plain
            case "mc-all":
                return dubio.Masked(plain, Bernoulli(drop=rate))
            case "concrete":
                return dubio.Masked(plain, Concrete(drop=START))
            case "bernoulli":
                return dubio.Masked(plain, LearnableBernoulli(drop=START))
            case _:
                return plain

    return nn.Sequential(
        Scaled(),
        Channel(),
        layer(nn.Conv2d(1, CHANNELS[0], 5)),
        nn.MaxPool2d(2),
        layer(nn.Conv2d(*CHANNELS, 5), drop_channels),
        nn.MaxPool2d(2),
        nn.Flatten(),
        layer(nn.Linear(FEATURES, UNITS), drop_channels),
        nn.ReLU(),
        layer(nn.Linear(UNITS, CLASSES), drop),
    )


def is_last(layer: nn.Module) -> bool:
    """Whether a layer gives the classes."""
    return isinstance(layer, nn.Linear) and layer.out_features == CLASSES


class Channel(nn.Module):
    """One channel for images that have none."""

    def forward(self, images: Tensor) -> Tensor:  # (B, 28, 28) -> (B, 1, 28, 28)
        """Add an axis."""
        return images.unsqueeze(1)
