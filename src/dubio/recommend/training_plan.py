"""How to train an autoencoder: numbers that are checked before anything is done."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

from dubio.recommend.arguments import SEED, check_attributes, number, one_of, whole
from dubio.recommend.output import Precision

ScheduleName: TypeAlias = Literal["constant", "cosine"]

_RATE = number(above=0, advice="try 1e-3")
_WEIGHT = number(least=0, advice="0 switches it off")
_CHECKS = {
    "epochs": whole(1),
    "batch_size": whole(1),
    "patience": whole(1),
    "learning_rate": _RATE,
    "rate_learning_rate": _RATE,
    "weight_decay": _WEIGHT,
    "beta": _WEIGHT,
    "anneal": _WEIGHT,
    "seed": SEED,
    "schedule": one_of(*get_args(ScheduleName)),
    "precision": one_of(*get_args(Precision)),
}


@final
@dataclass(frozen=True)
class TrainingPlan:
    """How to train.

    Attributes:
        epochs: How often to go through the users, at most.
        batch_size: Users in a step.
        learning_rate: Adam's step size.
        rate_learning_rate: Adam's step size for the rates of masks.
        weight_decay: λ of the penalty ½λ‖W‖² on all weights, not on biases and rates.
        patience: Epochs without a better validation after which to stop.
        beta: Largest weight of the divergence.
        anneal: T in β = min(beta, step/T); 0 for β = beta from the start.
        seed: Of the order of users and of all noise.
        schedule: Of learning rates: constant, or times ½(1 + cos(π·step/steps)) over all epochs.
        precision: Of the products with the last layer.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    rate_learning_rate: float
    weight_decay: float
    patience: int
    beta: float
    anneal: int
    seed: int
    schedule: ScheduleName = "constant"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check_attributes(self, _CHECKS)

    def beta_at(self, step: int) -> float:
        """Return β of a step, the first of which is 0."""
        return min(self.beta, step / self.anneal) if self.anneal else self.beta

    def rate_at(self, progress: float) -> float:
        """Return the factor of the learning rates, for a progress from 0 to 1."""
        return 1.0 if self.schedule == "constant" else 0.5 * (1 + math.cos(math.pi * progress))
