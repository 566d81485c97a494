"""A network that knows scenes, and its forks: the same with one kind of dropout each."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, final

from torch import Tensor, nn

import dubio
from dubio import data
from dubio.objectives.estimators import Estimator
from dubio_studies.framework.study import Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.networks.tiramisu import tiramisu103
from dubio_studies.networks.tiramisu_lite import TiramisuLite
from dubio_studies.scenes.images import (
    AVAILABLE,
    CLASSES,
    Labelled,
    Source,
    Split,
    load,
    size_of,
)
from dubio_studies.scenes.kinds import TEMPERATURE, with_dropout
from dubio_studies.scenes.likelihood import LIKELIHOOD
from dubio_studies.scenes.names import Kind
from dubio_studies.scenes.training import Method, SceneTraining, TrainedScenes, key_of, trained

Network = Literal["lite", "tiramisu103"]
"""The middle and a shorter way up of FC-DenseNet-103 on EfficientNet-Lite0; or FC-DenseNet-103."""


@dataclass(frozen=True)
class Forks:
    """Settings of the networks, which the studies of CamVid share.

    Attributes:
        source: camvid; or blocks, scenes that are made up, to try it without data.
        network: lite, with a trunk that knows ImageNet; or tiramisu103, which learns from nothing.
        images: Scenes to learn from.
        validation_images: Scenes that give the bounds of PAvgPU's thresholds.
        test_images: Scenes to judge by.
        restarts: Forks of each kind, each with its own noise and order of scenes.
        first_epochs: Epochs without dropout before a network forks; 0 for forks from nothing.
        fork_epochs: Epochs of every fork.
        batch_size: Scenes of a step.
        learning_rate: The largest before the fork.
        fork_learning_rate: The largest of a fork's weights.
        drop_learning_rate: The largest of the logits of its dropout rates.
        method: How steps of forks are made.
        drop: The fixed rate, and that learning starts from.
        length_scale: Of the prior on the weights behind dropout.
        estimator: The gradient for rates of learnable Bernoulli dropout.
        draws: Passes of a prediction.
    """

    source: Source = "camvid"
    network: Network = "tiramisu103"
    images: int = AVAILABLE["train"]
    validation_images: int = AVAILABLE["val"]
    test_images: int = AVAILABLE["test"]
    restarts: int = 3
    first_epochs: int = 0
    fork_epochs: int = 700
    batch_size: int = 3
    learning_rate: float = 1e-3
    fork_learning_rate: float = 1e-3
    drop_learning_rate: float = 1e-2
    method: Method = "published"
    drop: float = 0.2
    length_scale: float = 0.6
    estimator: Estimator = "arm"
    draws: int = 50

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        checks.at_least(
            1,
            images=self.images,
            validation_images=self.validation_images,
            test_images=self.test_images,
            restarts=self.restarts,
            fork_epochs=self.fork_epochs,
            batch_size=self.batch_size,
        )
        checks.at_least(0, first_epochs=self.first_epochs)
        checks.at_least(2, draws=self.draws)
        counts: dict[str, tuple[int, Split]] = {
            "images": (self.images, "train"),
            "validation_images": (self.validation_images, "val"),
            "test_images": (self.test_images, "test"),
        }
        for name, (count, split) in counts.items():
            if count > AVAILABLE[split]:
                raise ValueError(
                    f"{name}: expected at most {AVAILABLE[split]}, got {count}; ask for fewer."
                )
        checks.positive(
            learning_rate=self.learning_rate,
            fork_learning_rate=self.fork_learning_rate,
            drop_learning_rate=self.drop_learning_rate,
            length_scale=self.length_scale,
        )
        checks.rates(drop=self.drop)

    def scenes(self, split: Split) -> Labelled:
        """Those of a split; the same for all networks."""
        counts = {
            "train": self.images,
            "val": self.validation_images,
            "test": self.test_images,
        }
        return load(self.source, split, counts[split])

    def built(self) -> nn.Module:
        """From pixels to logits; a trunk knows ImageNet, unless scenes are made up."""
        if self.network == "tiramisu103":
            return nn.Sequential(Centred(), tiramisu103(len(CLASSES), drop=0.0))
        network = TiramisuLite(len(CLASSES))
        if self.source == "camvid":
            network.load_trunk(data.imagenet_weights("efficientnet-lite0"))
        return network

    def first(self, seed: int) -> TrainedScenes:
        """The network without dropout that all forks start from.

        Args:
            seed: That which the user gave.
        """
        scenes, (key, training) = self.scenes("train"), self._first_plan(seed)
        return trained(lambda: self._objective(self.built(), scenes), key, scenes, training)

    def fork(self, kind: Kind, restart: int, seed: int, drop: float | None = None) -> TrainedScenes:
        """A fork with one kind of dropout. Its trunk, if it has one, learns no more.

        Args:
            kind: Of dropout.
            restart: Tells equal forks apart.
            seed: That which the user gave.
            drop: The rate to start from, if it is not the usual one.
        """
        drop = self.drop if drop is None else drop
        scenes, (key, training) = self.scenes("train"), self._fork_plan(kind, restart, seed, drop)
        start = self.first(seed).network if self.first_epochs else None

        def make() -> dubio.ELBO:
            network = self.built() if start is None else copy.deepcopy(start)
            if isinstance(network, TiramisuLite) and start is not None:
                network.freeze_trunk()
            noisy = with_dropout(
                network,
                kind,
                drop,
                self.length_scale,
                temperature=self.concrete_temperature(),
                paired=training.copies == 2,
            )
            return self._objective(noisy, scenes)

        return trained(make, key, scenes, training)

    def of(self, piece: Piece, seed: Seed) -> TrainedScenes:
        """The fork that a piece names by kind, restart and, perhaps, the rate it starts from."""
        kind, restart, drop = _named(piece)
        return self.fork(kind, restart, seed.given, drop)

    def key(self, piece: Piece, seed: Seed) -> str:
        """What stands for all that decides the weights of that fork; it need not be trained."""
        kind, restart, drop = _named(piece)
        return self._fork_plan(kind, restart, seed.given, self.drop if drop is None else drop)[0]

    def fork_training(self) -> SceneTraining:
        """How forks learn."""
        return SceneTraining(
            self.fork_epochs,
            self.batch_size,
            self.fork_learning_rate,
            drop_learning_rate=self.drop_learning_rate,
            method=self.method,
        )

    def concrete_temperature(self) -> float:
        """That of Concrete masks."""
        return TEMPERATURE

    def _first_plan(self, seed: int) -> tuple[str, SceneTraining]:
        """The key of the network before the fork, and how it learns."""
        training = SceneTraining(self.first_epochs, self.batch_size, self.learning_rate)
        return key_of({**self._identity(seed), "part": "before the fork"}, training), training

    def _fork_plan(
        self, kind: Kind, restart: int, seed: int, drop: float
    ) -> tuple[str, SceneTraining]:
        """The key of a fork, and how it learns."""
        identity = {
            **self._identity(seed),
            "part": "fork",
            "from": self._first_plan(seed)[0] if self.first_epochs else "",
            "kind": kind,
            "restart": restart,
        }
        if kind != "none":
            identity |= {"drop": drop, "length scale": self.length_scale}
        if kind == "concrete" and self.concrete_temperature() != TEMPERATURE:
            identity |= {"temperature": self.concrete_temperature()}
        if kind == "bernoulli":
            identity |= {"estimator": self.estimator}
        training = self.fork_training()
        return key_of(identity, training), training

    def _objective(self, network: nn.Module, scenes: Labelled) -> dubio.ELBO:
        """The ELBO of images; the log-likelihood of one is the sum over its labelled pixels."""
        return dubio.ELBO(
            network, LIKELIHOOD, num_data=len(scenes.images), estimator=self.estimator
        )

    def _identity(self, seed: int) -> dict[str, str | int | float]:
        height, width = size_of(self.source)
        return {
            "source": self.source,
            "network": self.network,
            "images": self.images,
            "height": height,
            "width": width,
            "seed": seed,
        }


@final
class Centred(nn.Module):
    """Pixels from 0 to 255 as numbers from −1 to 1."""

    def forward(self, pixels: Tensor) -> Tensor:
        """For networks that learn from nothing."""
        return (pixels.float() - 127.5) / 127.5


def _named(piece: Piece) -> tuple[Kind, int, float | None]:
    return (
        cast(Kind, piece["kind"]),
        cast(int, piece["restart"]),
        cast(float | None, piece.get("drop")),
    )


SMOKE: Mapping[str, Any] = {
    "source": "blocks",
    "network": "lite",
    "images": 4,
    "validation_images": 2,
    "test_images": 3,
    "restarts": 1,
    "first_epochs": 1,
    "fork_epochs": 1,
    "batch_size": 2,
    "fork_learning_rate": 5e-4,
    "method": "one cycle",
    "draws": 3,
}
SMALL: Mapping[str, Any] = {
    "network": "lite",
    "first_epochs": 24,
    "fork_epochs": 4,
    "batch_size": 4,
    "learning_rate": 2e-3,
    "fork_learning_rate": 5e-4,
    "drop_learning_rate": 0.05,
    "method": "one cycle",
    "validation_images": 26,
    "estimator": "trapezoid_once",
    "draws": 10,
}
PAPER: Mapping[str, Any] = {}
"""Settings at each scale: the same in all studies, so that they find each other's networks."""
