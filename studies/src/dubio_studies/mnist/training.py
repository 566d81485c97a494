"""Networks that are trained once, for every study that wants them."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch.optim.lr_scheduler import CosineAnnealingLR

import dubio
from dubio.masks.mask import LearnedRate
from dubio.training.history import History
from dubio_studies.framework.network_cache import kept
from dubio_studies.framework.recipe import digest
from dubio_studies.framework.rows import Scalar

REVISION = 1  # raise it when training changes: networks in the cache then count no more


class Examples(Protocol):
    """What a network learns from, and what it is watched on; rows come first."""

    @property
    def train(self) -> Tensor:
        """What to learn from."""
        ...

    @property
    def train_labels(self) -> Tensor:
        """Its classes."""
        ...

    @property
    def test(self) -> Tensor:
        """What to watch."""
        ...

    @property
    def test_labels(self) -> Tensor:
        """Its classes."""
        ...


@final
@dataclass(frozen=True)
class DigitTraining:
    """How a network learns: by Adam, with a rate that falls to zero along half a cosine.

    Attributes:
        epochs: How often it goes through the images.
        batch_size: Images per step.
        learning_rate: The rate at the start.
        noise_learning_rate: That of what decides how large the noise is, if it is another:
            logits of learned dropout rates, and deviations of random weights. By Adam they move
            no further in a step than this.
    """

    epochs: int
    batch_size: int = 128
    learning_rate: float = 1e-3
    noise_learning_rate: float | None = None


@final
@dataclass(frozen=True)
class TrainedDigits:
    """A network that has learned.

    Attributes:
        network: From bytes to logits.
        history: Its loss by epoch; validation is the share of test images that one pass in eval
            mode, by mean weights and without dropout, gets wrong.
    """

    network: nn.Module
    history: History


def trained(
    make: Callable[[], dubio.ELBO],
    identity: Mapping[str, Scalar],
    examples: Examples,
    training: DigitTraining,
) -> TrainedDigits:
    """Train a network, or take it from the cache.

    Args:
        make: Makes the objective; its random numbers follow from the identity.
        identity: Names the network among all others: what it is, its data and its seed.
        examples: What it learns, and what it is watched on.
        training: How.
    """
    settings = {k: v for k, v in dataclasses.asdict(training).items() if v is not None}
    key = digest([REVISION, dict(identity), settings, torch.__version__])

    def train(file: Path) -> TrainedDigits:
        torch.manual_seed(int(key[:8], 16))
        objective = make()
        steps = training.epochs * -(-len(examples.train) // training.batch_size)
        history = dubio.fit(
            objective,
            (examples.train, examples.train_labels),
            epochs=training.epochs,
            batch_size=training.batch_size,
            optimizer=partial(adam, training, objective),
            schedule=partial(CosineAnnealingLR, T_max=steps),
            schedule_every="step",
            validate=lambda: wrong(objective.model(examples.test), examples.test_labels),
            checkpoint=file,
            progress=False,
        )
        return TrainedDigits(objective.model.eval(), history)

    return kept(key, train)


def adam(training: DigitTraining, objective: nn.Module, parameters: Sequence[nn.Parameter]) -> Adam:
    """The optimizer, with a group of its own for noise that learns at another pace."""
    groups: list[dict[str, Any]] = [{"params": list(parameters)}]
    if training.noise_learning_rate is not None:
        noise = set(noise_parameters(objective))
        groups = [
            {"params": [parameter for parameter in parameters if parameter not in noise]},
            {
                "params": [parameter for parameter in parameters if parameter in noise],
                "lr": training.noise_learning_rate,
            },
        ]
    return Adam(groups, lr=training.learning_rate, fused=True)


def noise_parameters(objective: nn.Module) -> Iterator[nn.Parameter]:
    """Logits of learned dropout rates, and ρ of random weights."""
    for module in objective.modules():
        if isinstance(module, LearnedRate):
            yield module.logit
        elif isinstance(module, dubio.Bayesian):
            yield module.rho


def wrong(logits: Tensor, labels: Tensor) -> Tensor:  # (B, C), (B,) -> ()
    """The share of images whose most likely class is not theirs."""
    return (logits.argmax(-1) != labels).double().mean()
