"""All splits of a table at once: standardised data, and networks in one population."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self, final

import torch
from torch import Tensor, nn

import dubio
from dubio.calibrate import PrecisionScaling
from dubio.data import uci
from dubio.predictive.predictive import Predictive, StoredDraws

VALIDATION = 0.2  # of the training rows
PUBLISHED = 20  # splits of a table; protein has 5


def check_splits(count: int) -> None:
    """Complain about no splits, and about more than there are."""
    if not 1 <= count <= PUBLISHED:
        raise ValueError(
            f"splits: expected 1 to {PUBLISHED}, as many as were published, got {count}."
        )


@final
@dataclass(frozen=True)
class Splits:
    """A table, once for every split: standardised by the training rows of that split.

    Attributes:
        x: Features of all splits, one split below the other.  # (S·N, D)
        y: Targets, likewise.  # (S·N, 1)
        scale: What targets were divided by.  # (S,)
        train: Training rows of each split.
        test: Test rows of each split.
    """

    x: Tensor
    y: Tensor
    scale: Tensor
    train: list[Tensor]
    test: list[Tensor]

    @classmethod
    def of(cls, name: str, count: int) -> Self:
        """The first splits of a table; as many as there are, if that is less."""
        table = uci(name)
        splits = table.splits[:count]
        target = table.target[:, None]
        xs, ys, scales = [], [], []
        for split in splits:
            features, targets = table.features[split.train], target[split.train]
            spread = features.std(0, correction=0)
            spread[spread == 0] = 1.0  # constant features stay zero
            scale = targets.std(correction=0)
            xs.append((table.features - features.mean(0)) / spread)
            ys.append((target - targets.mean()) / scale)
            scales.append(scale)
        rows = len(target)
        return cls(
            torch.cat(xs).float(),
            torch.cat(ys).float(),
            torch.stack(scales),
            [split.train + k * rows for k, split in enumerate(splits)],
            [split.test + k * rows for k, split in enumerate(splits)],
        )

    def __len__(self) -> int:
        return len(self.train)

    @property
    def features(self) -> int:
        """How many features the table has."""
        return self.x.shape[1]

    @property
    def validation(self) -> list[Tensor]:
        """The last fifth of the training rows, which are in random order."""
        return [rows[self._cut(rows) :] for rows in self.train]

    @property
    def rest(self) -> list[Tensor]:
        """The training rows before those of validation."""
        return [rows[: self._cut(rows)] for rows in self.train]

    @staticmethod
    def _cut(rows: Tensor) -> int:
        return round((1 - VALIDATION) * len(rows))


def perceptron(sizes: Sequence[int], layer: Callable[[int, int], nn.Module]) -> nn.Sequential:
    """Fully connected layers with rectifiers in between."""
    layers = [part for ins, outs in pairwise(sizes) for part in (layer(ins, outs), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def masked(mask: Callable[[], dubio.masks.Mask], length_scale: float) -> Callable[..., nn.Module]:
    """Makes linear layers with a mask on their inputs."""
    return lambda ins, outs: dubio.Masked(nn.Linear(ins, outs), mask(), length_scale=length_scale)


def train(
    objectives: Sequence[nn.Module],
    splits: Splits,
    rows: Sequence[Tensor],
    steps: int,
) -> None:
    """Train networks, each on its rows, in one population: Adam with a rate that falls twice."""
    population = dubio.Population(objectives)
    for share, rate in ((0.7, 5e-3), (0.2, 1e-3), (0.1, 1e-4)):
        population.fit(
            splits.x,
            splits.y,
            rows=rows,
            steps=math.ceil(share * steps),
            batch_size=64,
            learning_rate=rate,
            progress=False,
        )


@final
@dataclass(frozen=True)
class Score:
    """How well networks predict, in the units of the table."""

    rmse: Tensor
    log_likelihood: Tensor


def score(
    networks: Sequence[nn.Module],
    precisions: Tensor,
    splits: Splits,
    of: Sequence[int],
    rows: Sequence[Tensor],
    draws: int,
) -> Score:
    """Scores of networks with a noise precision each, in units of the standardised targets.

    Args:
        networks: One for each of ``of``.
        precisions: Their noise precisions.  # (M,)
        splits: The data.
        of: The split that each belongs to.
        rows: The rows that each is tested on.
        draws: Stochastic passes.
    """
    found = with_precisions(networks, precisions).evaluate(
        splits.x, splits.y, rows=rows, draws=draws
    )
    scale = splits.scale[list(of)]
    return Score(found.rmse * scale, found.log_prob - scale.log())


def with_precisions(networks: Sequence[nn.Module], precisions: Tensor) -> dubio.Population:
    """Networks that are to predict only, with a known noise precision each."""
    return dubio.Population(
        [
            dubio.ELBO(network, dubio.likelihoods.Gaussian(precision), num_data=1)
            for network, precision in zip(networks, precisions.tolist(), strict=True)
        ],
        seeds=range(len(networks)),
    )


def predictions(
    networks: Sequence[nn.Module],
    precisions: Tensor,
    x: Tensor,
    rows: Sequence[Tensor],
    draws: int,
    restarts: int = 1,
) -> list[Predictive]:
    """Predictions for rows of each network; those of restarts are put together.

    Args:
        networks: All of the first restart, then all of the second.
        precisions: The noise precision of each of a restart.  # (M,)
        x: All rows.
        rows: The rows that each of a restart predicts.
        draws: Stochastic passes of each network.
        restarts: How many networks make one prediction.
    """
    found = with_precisions(networks, precisions.repeat(restarts)).predict(
        x, rows=torch.stack(list(rows) * restarts), draws=draws
    )
    count = len(precisions)
    return [
        Predictive(
            dubio.likelihoods.Gaussian(precision),
            StoredDraws(torch.cat([found[k + count * r].draws for r in range(restarts)])),
        )
        for k, precision in enumerate(precisions.tolist())
    ]


def tuned_precisions(
    predictives: Sequence[Predictive], splits: Splits, rows: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:  # (M,), (M,)
    """The noise precision of each network that is best on its validation rows.

    It maximises the mean log predictive density, Gal & Ghahramani 2016, eq. 13, and is not bound to
    a grid.

    Args:
        predictives: Predictions for the rows, with a noise precision of one.
        splits: The data.
        rows: The validation rows of each.

    Returns:
        Precisions, and the mean log predictive densities that they reach.
    """
    precisions, densities = [], []
    for predictive, own in zip(predictives, rows, strict=True):
        scaling = PrecisionScaling().fit(predictive, splits.y[own])
        precisions.append(float(scaling.factor))
        densities.append(float(scaling(predictive).log_prob(splits.y[own]).mean()))
    return torch.tensor(precisions), torch.tensor(densities)
