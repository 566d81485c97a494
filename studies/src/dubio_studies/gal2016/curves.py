"""Networks and a Gaussian process that fit the curves of section 5.1: CO2 and solar irradiance.

The paper's text leaves out most of the set-up; it is taken from the authors' Caffe files. Caffe's
weight decay enters the loss as wd/2·‖w‖², so λ of eq. 1 is wd/2, and is the same for all
parameters. Its "xavier" is U(−√(3/fan_in), √(3/fan_in)) with zero biases, which learn twice as fast
as weights. The "4 or 5 layers" of the figures count the output: 3 or 4 are hidden.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from dubio import Predictive, data, fit, predict
from dubio.data.inventory import DATASETS
from dubio.likelihoods import Gaussian
from dubio_studies.framework.study import Measurement, Scale
from dubio_studies.gal2016.muon import Muon

NOISE_PRECISION = 1e5
"""τ of both data sets: an earlier version of the paper says that weight decay was chosen for it."""


@final
@dataclass(frozen=True)
class Config:
    """Settings of networks that fit a curve.

    Attributes:
        width: Units per hidden layer.
        iterations: Steps of training, at most; whole rounds through the data are made.
        batch_size: Rows per step, taken in order, over and over.
        optimizer: caffe is SGD with momentum and the published rates and schedule, which differ
            between networks; muon needs a hundredth of the steps, and has a cosine schedule.
        learning_rate: Of muon.
        spread: Whether units of the first layer begin with their bends spread over the inputs;
            Caffe has all of them at zero, from where they have to wander.
        steepness: How much larger than Caffe's the first weights of TanH networks begin.
        restarts: Networks of each kind, from different initial weights.
        draws: Stochastic passes behind a mean and a standard deviation (T).
        points: Inputs at which curves are drawn.
    """

    width: int = 1024
    iterations: int = 1_000_000
    batch_size: int = 200
    optimizer: Literal["caffe", "muon"] = "caffe"
    learning_rate: float = 0.02
    spread: bool = False
    steepness: float = 1.0
    restarts: int = 1
    draws: int = 1000
    points: int = 450

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        counts = (self.width, self.iterations, self.batch_size, self.restarts, self.points)
        if (lowest := min(counts)) < 1:
            raise ValueError(
                "width, iterations, batch_size, restarts, points: expected at least 1, got "
                f"{lowest}."
            )
        if self.draws < 2:
            raise ValueError(f"draws: expected at least 2, got {self.draws}.")
        if not (0 < self.learning_rate < math.inf and 0 < self.steepness < math.inf):
            raise ValueError(
                "learning_rate, steepness: expected positive numbers, got "
                f"{self.learning_rate} and {self.steepness}."
            )


SMALL = Config(
    width=128,
    iterations=4000,
    batch_size=272,
    optimizer="muon",
    spread=True,
    steepness=4.0,
    restarts=3,
)
SCALES: dict[Scale, Config] = {
    "smoke": replace(SMALL, width=16, iterations=50, restarts=2, draws=20, points=30),
    "small": SMALL,
    "paper": Config(),
}

DEVIATIONS = (
    "The paper does not give initial weights, optimizer, schedule and weight decay: ours are "
    "those of the authors' Caffe files, in which the 4 or 5 hidden layers of the text are 3 "
    "or 4 plus the output. We leave out the models with one layer less.",
    "Networks narrower than 1024 have lower dropout rates (0.0137 at width 128 for the "
    "published 0.1), so that a layer's output is equally noisy: drop/(keep·width) is as "
    "published.",
    "The paper scale was not run: a million iterations at width 1024 take about a day per "
    "network on one core. The small scale minimises the same loss with Muon, from first layers "
    "whose kinks are spread over the data, in TanH networks four times as steep.",
)


@final
@dataclass(frozen=True)
class PublishedNetwork:
    """A network of the authors' files and how it was trained.

    Attributes:
        activation: After every hidden layer, before dropout; the input has none.
        drop: Probability of a zero at the published width, see `drop_at`.
        hidden: Hidden layers.
        learning_rate: Of the weights at the first step of ``caffe``; biases have twice as much.
        weight_decay: wd.
        gamma: The rate at step i is that of the first, times (1 + γ·i)^(−power).
        power: See gamma.
    """

    activation: type[nn.Module]
    drop: float
    learning_rate: float
    weight_decay: float
    hidden: int = 4
    gamma: float = 1e-4
    power: float = 0.25


CO2_KINDS = {
    "relu": PublishedNetwork(nn.ReLU, drop=0.1, learning_rate=1e-2, weight_decay=1e-6),
    "tanh": PublishedNetwork(nn.Tanh, drop=0.1, learning_rate=5e-3, weight_decay=5e-7),
    "tanh-0.2": PublishedNetwork(nn.Tanh, drop=0.2, learning_rate=1e-2, weight_decay=0.0),
}

PUBLISHED_WIDTH = 1024


def drop_at(drop: float, width: int) -> float:
    """The rate at which a layer of another width has the noise of the published one.

    A sum of K units of size a/K under inverted dropout has variance drop/(keep·K)·a². Narrow
    networks at the published rate would be noisier by as much as they are narrower; this rate keeps
    drop/(keep·width).
    """
    odds = drop / (1 - drop) * width / PUBLISHED_WIDTH
    return odds / (1 + odds)


def network(kind: PublishedNetwork, width: int) -> nn.Sequential:
    """Linear, activation and dropout for each hidden layer, then a linear output."""
    sizes = [1, *([width] * kind.hidden)]
    drop = drop_at(kind.drop, width)
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [xavier(fan_in, fan_out), kind.activation(), nn.Dropout(drop)]
    return nn.Sequential(*layers, xavier(width, 1))


def xavier(fan_in: int, fan_out: int) -> nn.Linear:
    """A layer as Caffe begins with it."""
    layer = nn.Linear(fan_in, fan_out)
    limit = math.sqrt(3 / fan_in)
    nn.init.uniform_(layer.weight, -limit, limit)
    nn.init.zeros_(layer.bias)
    return layer


@torch.no_grad()
def prepare(first: nn.Linear, config: Config, kind: PublishedNetwork, x: Tensor) -> None:
    """Change the first layer as the config says."""
    if kind.activation is nn.Tanh:
        first.weight.mul_(config.steepness)
    if config.spread:
        bends = torch.empty_like(first.bias).uniform_(float(x.min()), float(x.max()))
        first.bias.copy_(-first.weight.flatten() * bends)


@final
class EuclideanLoss(nn.Module):
    """Caffe's 1/(2B) Σ (ŷ − y)²."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch."""
        return F.mse_loss(self.model(x), y) / 2


def train(
    config: Config, kind: PublishedNetwork, x: Tensor, y: Tensor
) -> tuple[nn.Sequential, list[float]]:
    """A trained network, and its loss in every round through the batches."""
    (stage,) = stages(config, kind, x, y, 1)
    return stage.model, stage.losses


@final
@dataclass(frozen=True)
class Stage:
    """A network on its way.

    Attributes:
        iteration: Steps so far.
        model: The network, which the next stage trains further.
        losses: Of the rounds through the batches since the last stage.
    """

    iteration: int
    model: nn.Sequential
    losses: list[float]


def stages(
    config: Config, kind: PublishedNetwork, x: Tensor, y: Tensor, count: int
) -> Iterator[Stage]:
    """Train a network, with so many stops, or one after every round if there are fewer."""
    model = network(kind, config.width)
    prepare(model[0], config, kind, x)  # type: ignore[arg-type]
    batches = cyclic_batches(x, y, config.batch_size)
    rounds = max(1, config.iterations // len(batches))
    optimizer = make_optimizer(config, kind, model)
    schedule = make_schedule(config, kind, optimizer, rounds * len(batches))
    stops = sorted({rounds * stop // count for stop in range(count + 1)} | {0})
    for start, stop in pairwise(stops):
        history = fit(
            EuclideanLoss(model),
            batches,
            epochs=stop - start,
            optimizer=optimizer,
            schedule=schedule,
            schedule_every="step",
            progress=False,
        )
        yield Stage(stop * len(batches), model, [epoch.loss for epoch in history])


def cyclic_batches(x: Tensor, y: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """As many batches as it takes until one begins with the first row again."""
    count = len(x) // math.gcd(len(x), size)
    rows = [torch.arange(start, start + size) % len(x) for start in range(0, count * size, size)]
    return [(x[chosen], y[chosen]) for chosen in rows]


def make_optimizer(config: Config, kind: PublishedNetwork, model: nn.Module) -> Optimizer:
    """Either optimizer; the weight decay is part of the gradient, and so of the loss, in both."""
    if config.optimizer == "muon":
        return Muon(model.parameters(), lr=config.learning_rate, weight_decay=kind.weight_decay)
    named = list(model.named_parameters())
    rate = kind.learning_rate
    groups = [
        {"params": [p for name, p in named if name.endswith("weight")], "lr": rate},
        {"params": [p for name, p in named if name.endswith("bias")], "lr": 2 * rate},
    ]
    return SGD(groups, momentum=0.9, weight_decay=kind.weight_decay)


def make_schedule(
    config: Config, kind: PublishedNetwork, optimizer: Optimizer, steps: int
) -> LambdaLR:
    """Caffe's "inv"; for muon half a cosine down to zero, after a rise in the first 5 %."""
    if config.optimizer == "caffe":
        return LambdaLR(optimizer, lambda step: (1 + kind.gamma * step) ** -kind.power)
    rise = max(1, steps // 20)
    return LambdaLR(
        optimizer,
        lambda step: min((step + 1) / rise, 0.5 + 0.5 * math.cos(math.pi * min(1, step / steps))),
    )


def mc_dropout(model: nn.Module, x: Tensor, draws: int) -> Predictive:
    """The paper's predictive distribution: T passes, and noise of precision τ (section 4)."""
    return predict(model, x, draws=draws, likelihood=Gaussian(NOISE_PRECISION), keep_draws=False)


@torch.no_grad()
def standard_dropout(model: nn.Module, x: Tensor) -> Tensor:
    """One pass without noise, which is weight averaging."""
    return model.eval()(x)  # type: ignore[no-any-return]


def observations(x: Tensor, y: Tensor, **fields: str) -> Iterator[Measurement]:
    """What was observed, as precisely as it is drawn."""
    for place, value in zip(x.flatten().tolist(), y.flatten().tolist(), strict=True):
        yield {**fields, "metric": "observed", "x": round(place, 3), "value": round(value, 2)}


def curve(x: Tensor, mean: Tensor, std: Tensor, **fields: str) -> Iterator[Measurement]:
    """A row for every input."""
    for place, value, spread in zip(
        x.flatten().tolist(), mean.flatten().tolist(), std.flatten().tolist(), strict=True
    ):
        yield {
            **fields,
            "metric": "curve",
            "x": round(place, 4),
            "value": round(value, 4),
            "std": round(spread, 5),
        }


def learning_curve(losses: list[float], iterations: int, points: int = 40) -> Iterator[Measurement]:
    """The loss during training, averaged over as many stretches."""
    stretch = max(1, len(losses) // points)
    for start in range(0, len(losses) - stretch + 1, stretch):
        part = losses[start : start + stretch]
        yield {
            "metric": "loss",
            "iteration": round((start + len(part)) * iterations / len(losses)),
            "value": sum(part) / len(part),
        }


def co2_observed() -> Iterator[Measurement]:
    """The CO2 data, for figures; nothing if they are not here."""
    if DATASETS["co2"].here() is None:  # pages are made without downloads
        return
    observed = data.co2()
    yield from observations(observed.x, observed.y)
