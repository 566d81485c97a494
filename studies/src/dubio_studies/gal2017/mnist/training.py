"""Training until rates of dropout have converged, from whatever start."""

import math
from typing import Any

import torch
from torch import nn
from torch.optim import Adam
from torch.optim.lr_scheduler import LambdaLR

import dubio
from dubio.likelihoods import Categorical
from dubio.masks import Mask
from dubio.masks.mask import LearnedRate
from dubio_studies.mnist.images import Digits

FEW = 1_000  # images; the KL first has the weight that it has with so many
ANNEALED = 0.3  # share of the steps over which the weight of the KL falls to one
LAST = 0.2  # share of the steps over which drift is measured
LOOKED_AT = 1_000  # images at a time


def train(
    network: nn.Module,
    digits: Digits,
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    drop_learning_rate: float,
    annealed: bool = True,
) -> list[float]:
    """Train a network and return its rates before the last fifth of the steps.

    If the KL has its full weight from the beginning, rates collapse while weights are still random
    and rise again slowly. With a larger weight at first they come down from above instead.

    Args:
        network: From bytes to logits.
        digits: What it learns from.
        steps: Of Adam.
        batch_size: Images per step, drawn with replacement.
        learning_rate: Of weights and biases, the largest; it falls to zero.
        drop_learning_rate: Of the logits of rates, the largest; it falls to zero.
        annealed: Whether the KL first has a larger weight.
    """
    size = len(digits.train)

    def kl_weight(step: int) -> float:
        return annealing(step / steps, size) if annealed else 1.0

    elbo = dubio.ELBO(
        network, Categorical(), num_data=size, estimator="trapezoid_once", kl_weight=kl_weight
    )
    logits = [module.logit for module in network.modules() if isinstance(module, LearnedRate)]
    others = [p for name, p in network.named_parameters() if not name.endswith("logit")]
    groups: list[dict[str, Any]] = [{"params": others, "lr": learning_rate}]
    if logits:
        groups.append({"params": logits, "lr": drop_learning_rate})
    optimizer = Adam(groups, fused=True)
    schedule = LambdaLR(optimizer, lambda step: falling(step / steps))
    before = rates(network)
    for step in range(steps):
        if step == round((1 - LAST) * steps):
            before = rates(network)
        rows = torch.randint(size, (batch_size,))
        optimizer.zero_grad()
        elbo(digits.train[rows], digits.train_labels[rows]).backward()
        optimizer.step()
        schedule.step()
    return before


def annealing(share: float, size: int) -> float:
    """The weight of the KL after a share of the steps: it falls geometrically to one."""
    return math.pow(max(1.0, size / FEW), max(0.0, 1 - share / ANNEALED))


def falling(share: float) -> float:
    """A learning rate relative to its first, after a share of the steps."""
    return (1 - share) ** 2


def rates(network: nn.Module) -> list[float]:
    """The dropout rates in the order of the layers."""
    return [float(module.drop) for module in network.modules() if isinstance(module, Mask)]


@torch.no_grad()
def loss(network: nn.Module, digits: Digits, draws: int) -> float:
    """The negative ELBO per training image, in nats; the mean over passes."""
    elbo = dubio.ELBO(network, Categorical(), num_data=len(digits.train))
    total = 0.0
    for _ in range(draws):
        for images, labels in zip(
            digits.train.split(LOOKED_AT), digits.train_labels.split(LOOKED_AT), strict=True
        ):
            total += float(elbo(images, labels)) * len(images)
    return total / (draws * len(digits.train))
