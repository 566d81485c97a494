"""Two ways to read a network: averaged over draws of its noise, or by one pass without any."""

import copy
from typing import Literal

import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Categorical
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio_studies.framework.study import Seed

Reading = Literal["draws", "pass"]


def readings(method: str) -> tuple[Reading, ...]:
    """The ways that a method's networks can be read."""
    return ("pass",) if method == "plain" else ("draws", "pass")


def read(
    network: nn.Module,
    images: Tensor,
    reading: Reading,
    draws: int,
    seed: Seed,
) -> Predictive:
    """What a network says about images.

    Args:
        network: From pixels to logits, in eval mode.
        images: Bytes, or numbers in their place.  # (B, 28, 28)
        reading: How.
        draws: Draws to average over, if any.
        seed: Their noise follows from that of the user alone: studies that read the same images
            by the same network get the same numbers.
    """
    if reading == "draws":
        generator = torch.Generator().manual_seed(seed.given)
        return dubio.predict(
            network, images, draws=draws, likelihood=Categorical(), generator=generator
        )
    with torch.no_grad():
        return Predictive(Categorical(), StoredDraws(network(images)[None]))


def quiet(network: nn.Module) -> nn.Module:
    """A copy without noise, whoever asks for draws: weights are their means, nothing drops."""
    random = any(isinstance(module, dubio.Bayesian) for module in network.modules())
    still = dubio.freeze(network) if random else copy.deepcopy(network)
    for module in still.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return still
