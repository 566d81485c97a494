"""How networks for scenes learn, once for every study that wants them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import ExponentialLR, LRScheduler, OneCycleLR

import dubio
from dubio.masks.mask import LearnedRate
from dubio_studies.framework.network_cache import kept
from dubio_studies.framework.recipe import digest
from dubio_studies.framework.rows import Scalar
from dubio_studies.scenes.augmentation import AugmentedScenes
from dubio_studies.scenes.images import Labelled
from dubio_studies.scenes.kinds import drops

REVISION = 2  # raise it when training changes: networks in the cache then count no more

Method = Literal["one cycle", "published"]
"""AdamW with a rate that rises and falls once; or RMSProp with a rate that falls by a factor of
0.995 an epoch (Jégou et al. 2017)."""


@final
@dataclass(frozen=True)
class SceneTraining:
    """How a network learns.

    Attributes:
        epochs: How often it goes through the scenes.
        batch_size: Scenes of a step.
        learning_rate: The largest of weights.
        trunk_share: That of the trunk's weights, in it.
        drop_learning_rate: The largest of logits of dropout rates. By Adam they move no further
            in a step than this.
        method: How steps are made.
        drop_momentum: β₁ of Adam for these logits: the larger, the more steps the noise of their
            gradients is averaged over.
        copies: Masks that a scene of a step has; two are a pair, see `PairedConcrete`.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    trunk_share: float = 0.3
    drop_learning_rate: float = 0.05
    method: Method = "one cycle"
    drop_momentum: float = 0.9
    copies: int = 1


@final
class WatchedLoss(nn.Module):
    """An objective in low precision that notes dropout rates step by step.

    Attributes:
        rates: The rates before every step, and after the last.  # (steps + 1, layers)
    """

    rates: Tensor

    def __init__(self, objective: dubio.ELBO, steps: int) -> None:
        super().__init__()
        self.objective = objective
        self.register_buffer("rates", torch.zeros(steps + 1, len(drops(objective))))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss, with convolutions in bfloat16."""
        self.note()
        with torch.autocast(x.device.type, torch.bfloat16):
            loss: Tensor = self.objective(x, y)
        return loss

    def note(self) -> None:
        """Note the rates before the step that comes."""
        for layer, drop in enumerate(drops(self.objective)):
            self.rates[self.objective.step, layer] = drop.squeeze()


@final
@dataclass(frozen=True)
class TrainedScenes:
    """A network that has learned.

    Attributes:
        network: From pixels to logits, in eval mode.
        rates: Dropout rates of the layers at the start and after every epoch.  # (epochs + 1, L)
    """

    network: nn.Module
    rates: Tensor


def key_of(identity: Mapping[str, Scalar], training: SceneTraining) -> str:
    """Hexadecimal digits that stand for all that decides the weights of a network.

    Args:
        identity: Names the network among all others: what it is, its data and its seed.
        training: How it learns.
    """
    settings = dataclasses.asdict(training)
    for later in ("drop_momentum", "copies"):
        if settings[later] == getattr(SceneTraining, later):
            del settings[later]  # networks from before there was a choice have their keys
    return digest([REVISION, dict(identity), settings, torch.__version__])


def trained(
    make: Callable[[], dubio.ELBO], key: str, scenes: Labelled, training: SceneTraining
) -> TrainedScenes:
    """Train a network, or take it from the cache.

    Args:
        make: Makes the objective; its random numbers follow from the key.
        key: That of the network.
        scenes: What it learns.
        training: How.
    """

    def train(file: Path) -> TrainedScenes:
        torch.manual_seed(int(key[:8], 16))
        batches = AugmentedScenes(scenes, training.batch_size, copies=training.copies)
        steps = training.epochs * len(batches)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        watched = WatchedLoss(make(), steps).to(device)
        dubio.fit(
            watched,
            batches,
            epochs=training.epochs,
            optimizer=partial(optimizer, training, watched.objective),
            schedule=partial(schedule, training, steps),
            schedule_every="step" if training.method == "one cycle" else "epoch",
            checkpoint=file,
            save_every=300.0,
            progress=False,
        )
        watched.note()
        rates = watched.rates[:: len(batches)].cpu()
        return TrainedScenes(watched.objective.model.eval(), rates)

    return kept(key, train)


def optimizer(
    training: SceneTraining, objective: dubio.ELBO, parameters: Sequence[nn.Parameter]
) -> Optimizer:
    """Groups of their own for the trunk, which learns slowly, and for dropout rates."""
    logits = [m.logit for m in objective.modules() if isinstance(m, LearnedRate) and m.learn]
    trunk = getattr(objective.model, "trunk", None)
    slow = [] if trunk is None else [p for p in trunk.parameters() if p.requires_grad]
    others = set(parameters) - {*logits, *slow}
    rest = [p for p in parameters if p in others]
    groups: list[dict[str, Any]] = [
        {"params": rest, "lr": training.learning_rate},
        {"params": slow, "lr": training.trunk_share * training.learning_rate},
        {"params": logits, "lr": training.drop_learning_rate, "weight_decay": 0.0},
    ]
    if training.method == "one cycle":
        groups[-1]["betas"] = (training.drop_momentum, 0.999)
    groups = [group for group in groups if group["params"]]
    if training.method == "published":
        return RMSprop(groups, lr=training.learning_rate, weight_decay=1e-4)
    return AdamW(groups, lr=training.learning_rate, weight_decay=1e-2, fused=True)


def schedule(training: SceneTraining, steps: int, chosen: Optimizer) -> LRScheduler:
    """How learning rates change, each from its own largest."""
    if training.method == "published":
        return ExponentialLR(chosen, 0.995)
    largest = [group["lr"] for group in chosen.param_groups]
    return OneCycleLR(chosen, largest, total_steps=max(steps, 2), cycle_momentum=False)
