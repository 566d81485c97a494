"""How the network learns: shifted and flipped photographs, smoothed labels, SGD by a triangle."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

import dubio
from dubio.training.history import History
from dubio_studies.networks.airbench import Airbench

MEAN = (125.31, 122.95, 113.87)
DEVIATION = (62.99, 62.09, 66.70)
"""Of the channels of CIFAR-10's photographs."""

SHIFT = 2  # pixels that a photograph moves by at most
SMOOTHING = 0.2  # of labels
BIAS_SPEED = 64.0  # how much faster shifts of BatchNorm learn
START, PEAK = 0.2, 0.23  # of the learning rate: at first, and where it is highest
WHITENED = 5_000  # photographs that the first layer looks at


@final
@dataclass(frozen=True)
class CifarTraining:
    """How the network learns.

    Attributes:
        epochs: Passes over the photographs.
        batch_size: Photographs per step.
        learning_rate: The highest, for a mean over the batch.
        momentum: Of Nesterov.
        weight_decay: Of a step, divided by the learning rate.
    """

    epochs: int
    batch_size: int = 1000
    learning_rate: float = 1.5
    momentum: float = 0.85
    weight_decay: float = 1.33e-3


def standardised(images: Tensor) -> Tensor:  # (B, 3, H, W) uint8 -> float32
    """Channels with mean zero and variance one."""
    mean, deviation = (
        torch.tensor(values, device=images.device).view(3, 1, 1) for values in (MEAN, DEVIATION)
    )
    return (images - mean) / deviation


@final
class AugmentedLoss(nn.Module):
    """The loss of a batch of bytes, shifted at random and flipped in every other epoch.

    Half of the photographs, at random, are flipped in the first epoch, the others in the second,
    and so on: no two neighbouring epochs show a photograph the same way.

    Args:
        network: From standardised photographs to logits.
        photographs: How many there are.
        steps: Of an epoch.
    """

    step: Tensor
    flipped_first: Tensor

    def __init__(self, network: Airbench, photographs: int, steps: int) -> None:
        super().__init__()
        self.network = network
        self.steps = steps
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self.register_buffer("flipped_first", torch.rand(photographs) < 0.5)

    def forward(self, batch: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
        """The cross-entropy with smoothed labels; the batch is photographs and their numbers."""
        images, numbers = batch
        epoch = int(self.step) // self.steps
        self.step += 1
        flip = self.flipped_first[numbers] ^ bool(epoch % 2)
        seen = shifted(flipped(standardised(images), flip))
        with torch.autocast(images.device.type, torch.bfloat16):
            logits = self.network(seen.contiguous(memory_format=torch.channels_last))
        return F.cross_entropy(logits.float(), labels, label_smoothing=SMOOTHING)


def flipped(images: Tensor, where: Tensor) -> Tensor:  # (B, C, H, W), (B,)
    """Left and right exchanged where it is said."""
    return torch.where(where[:, None, None, None], images.flip(-1), images)


def shifted(images: Tensor) -> Tensor:  # (B, C, H, W)
    """Every photograph moved by up to two pixels each way; what comes in is reflected."""
    count, _, height, width = images.shape
    padded = F.pad(images, (SHIFT,) * 4, mode="reflect")
    down, right = torch.randint(2 * SHIFT + 1, (2, count, 1), device=images.device)
    rows = down + torch.arange(height, device=images.device)  # (B, H)
    columns = right + torch.arange(width, device=images.device)  # (B, W)
    which = torch.arange(count, device=images.device)[:, None, None]
    moved = padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)


def learn(
    network: Airbench, images: Tensor, labels: Tensor, training: CifarTraining, checkpoint: Path
) -> History:
    """Train a network on bytes (N, 3, 32, 32), in place; one that was stopped goes on."""
    network.whiten_like(standardised(images[:WHITENED]))
    steps = -(-len(images) // training.batch_size)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    objective = AugmentedLoss(network, len(images), steps)
    return dubio.fit(
        objective,
        ((images, torch.arange(len(images))), labels),
        epochs=training.epochs,
        batch_size=training.batch_size,
        optimizer=partial(_sgd, training, objective),
        schedule=partial(LambdaLR, lr_lambda=partial(triangle, steps * training.epochs)),
        schedule_every="step",
        checkpoint=checkpoint,
        progress=False,
    )


def triangle(total: int, step: int) -> float:
    """The learning rate at a step, as a share of the highest: up, and down to zero."""
    done = step / total
    if done < PEAK:
        return START + (1 - START) * done / PEAK
    return max((1 - done) / (1 - PEAK), 0.0)


def _sgd(training: CifarTraining, objective: nn.Module, parameters: Sequence[nn.Parameter]) -> SGD:
    """Nesterov's SGD; shifts of BatchNorm are a group that learns faster and decays as much."""
    norms = [layer for layer in objective.modules() if isinstance(layer, nn.BatchNorm2d)]
    shifts = {layer.bias for layer in norms}
    fast, slow = ([p for p in parameters if (p in shifts) == own] for own in (True, False))
    return SGD(
        [
            {"params": slow, "weight_decay": training.weight_decay},
            {
                "params": fast,
                "lr": BIAS_SPEED * training.learning_rate,
                "weight_decay": training.weight_decay / BIAS_SPEED,
            },
        ],
        lr=training.learning_rate,
        momentum=training.momentum,
        nesterov=True,
    )
