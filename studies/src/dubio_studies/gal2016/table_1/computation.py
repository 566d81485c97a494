"""The numbers of table 1: MC dropout on UCI tables by three protocols."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, final, get_args

import torch
from torch import Tensor

import dubio
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.gal2016.table_1.published import PRECISIONS
from dubio_studies.uci.splits import (
    Score,
    Splits,
    check_splits,
    masked,
    perceptron,
    score,
    train,
    tuned_precisions,
    with_precisions,
)
from dubio_studies.uci.tables import TABLES, longest_first

Protocol = Literal["paper", "grid", "clean"]

DROPS = (0.005, 0.01, 0.05, 0.1)  # of the newer grid
TUNING_DRAWS = 100
LONGER = 10  # times the epochs of the newer grid: as many as published, at the scale paper
LONG_TABLES = ("boston", "concrete", "energy", "yacht")  # small enough for it
MOST_CHOSEN = {  # on larger ones: the rate and τ that splits choose most often after fewer epochs
    "kin8nm": (0.005, 200.0),
    "naval": (0.005, 50_000.0),
    "power": (0.005, 0.05),
    "protein": (0.005, 0.05),
    "wine": (0.1, 3.0),
}


@final
class Constants(NamedTuple):
    """What the authors' code has for a table.

    Attributes:
        drop: The rate, from a search over the first splits.
        precision: τ, in units of the raw target, from the same search.
        length_scale: l of the prior.
        grid: The values of τ of the newer code.
    """

    drop: float
    precision: float
    length_scale: float
    grid: tuple[float, float, float]


CONSTANTS = {
    "boston": Constants(0.05, 0.159708, 1e-2, PRECISIONS["boston"]),
    "concrete": Constants(0.01, 0.0557319, 1e-2, PRECISIONS["concrete"]),
    "energy": Constants(0.05, 0.427115, 1e-2, PRECISIONS["energy"]),
    "kin8nm": Constants(0.05, 192.483, 1e-2, PRECISIONS["kin8nm"]),
    "naval": Constants(0.05, 42173.5, 1.0, PRECISIONS["naval"]),
    "power": Constants(0.005, 0.0871109, 1e-2, PRECISIONS["power"]),
    "protein": Constants(0.005, 0.0644419, 1e-2, PRECISIONS["protein"]),
    "wine": Constants(0.05, 2.95834, 1e-2, PRECISIONS["wine"]),
    "yacht": Constants(0.01, 0.54187, 1e-1, PRECISIONS["yacht"]),
}


@dataclass(frozen=True)
class Config:
    """Settings of the comparison.

    Attributes:
        tables: Data sets.
        protocols: paper is that of table 1, grid the authors' newer code, clean ours.
        splits: Random splits; protein has 5 at most.
        epochs: Of the paper's protocol; half of it for protein.
        grid_epochs: Of the newer protocol; half of it for protein. Small tables are also run with
            ten times as many, and on some large ones the networks that splits choose most often.
        steps: Of our protocol, at least.
        steps_per_row: Of our protocol, for each training row, at least.
        drops: Rates among which our protocol chooses.
        length_scales: Length scales among which our protocol chooses.
        draws: Stochastic passes at test time.
    """

    tables: tuple[str, ...] = TABLES
    protocols: tuple[Protocol, ...] = get_args(Protocol)
    splits: int = 20
    epochs: int = 400
    grid_epochs: int = 400
    steps: int = 20_000
    steps_per_row: float = 2.0
    drops: tuple[float, ...] = (0.002, 0.01, 0.05, 0.1)
    length_scales: tuple[float, ...] = (0.01, 1.0)
    draws: int = 1000

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if unknown := set(self.tables) - set(TABLES):
            raise ValueError(f"tables: expected some of {', '.join(TABLES)}, got {unknown}.")
        if (lowest := min(self.epochs, self.grid_epochs, self.steps, self.draws)) < 1:
            raise ValueError(
                f"epochs, grid_epochs, steps, draws: expected at least 1, got {lowest}."
            )
        check_splits(self.splits)
        if not all(0.0 < drop < 1.0 for drop in self.drops):
            raise ValueError(f"drops: expected rates in (0, 1), got {self.drops}.")
        if not all(length_scale >= 0.0 for length_scale in self.length_scales):
            raise ValueError(f"length_scales: expected numbers >= 0, got {self.length_scales}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each table and protocol, the longest first."""
    return [
        {"table": table, "protocol": protocol}
        for table in longest_first(config.tables)
        for protocol in protocols_of(table, config)
    ]


def protocols_of(table: str, config: Config) -> list[str]:
    """Those of the config, and the newer grid with more epochs: all of it, or its last training."""
    longer: list[str] = []
    if "grid" in config.protocols:
        longer += ["long grid"] if table in LONG_TABLES else []
        longer += ["long training"] if table in MOST_CHOSEN else []
    return [*config.protocols, *longer]


@final
@dataclass(frozen=True)
class ProtocolOutcome:
    """What a protocol ends with, split by split.

    Attributes:
        score: On the test rows.
        drop: The rate.
        precision: τ in units of the standardised target.
        length_scale: As the networks have it: for standardised features and targets.
    """

    score: Score
    drop: Tensor
    precision: Tensor
    length_scale: Tensor


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Test errors and log-likelihoods of every split, and what was chosen for it."""
    table = str(piece["table"])
    splits = Splits.of(table, config.splits)
    protocols: dict[str, Callable[[Config, str, Splits], ProtocolOutcome]] = {
        "paper": by_paper,
        "grid": by_grid,
        "long grid": partial(by_grid, longer=LONGER),
        "long training": by_long_training,
        "clean": by_clean_protocol,
    }
    outcome = protocols[str(piece["protocol"])](config, table, splits)
    precision = outcome.precision / splits.scale**2
    columns = {
        "rmse": outcome.score.rmse,
        "log-likelihood": outcome.score.log_likelihood,
        "drop": outcome.drop,
        "precision": precision,
        "length scale": outcome.length_scale,
        "ceiling": 0.5 * (precision / (2 * math.pi)).log(),  # of the log-likelihood, by τ alone
    }
    for metric, values in columns.items():
        for split, value in enumerate(values.tolist()):
            yield {"split": split, "metric": metric, "value": value}


def hidden(table: str) -> int:
    """Units of the hidden layer."""
    return 100 if table == "protein" else 50


def members(
    table: str, splits: Splits, drops: Tensor, length_scales: Tensor, precisions: Tensor, rows: int
) -> list[dubio.ELBO]:
    """Networks with one hidden layer, with dropout on features and units; NaN: τ is learned."""
    found = []
    for drop, length_scale, precision in zip(
        drops.tolist(), length_scales.tolist(), precisions.tolist(), strict=True
    ):
        layer = masked(partial(dubio.masks.Bernoulli, drop=drop), length_scale)
        likelihood = (
            dubio.likelihoods.LearnedGaussian()
            if math.isnan(precision)
            else dubio.likelihoods.Gaussian(precision)
        )
        network = perceptron((splits.features, hidden(table), 1), layer)
        found.append(dubio.ELBO(network, likelihood, num_data=rows))
    return found


def by_paper(config: Config, table: str, splits: Splits) -> ProtocolOutcome:
    """One rate, length scale and precision for all splits, found beforehand on some of them.

    The authors minimise the mean of (y − ŷ)² plus l²(1 − p)/(2Nτ)·‖W‖² with standardised targets.
    An `ELBO` with the precision τσ² and the length scale l(1 − p)σ/√2, σ being the deviation of the
    targets, is that loss times a constant, which Adam does not notice.
    """
    constants = CONSTANTS[table]
    epochs = config.epochs // 2 if table == "protein" else config.epochs
    return _published(
        table, splits, epochs, 32, torch.full((len(splits),), constants.drop),
        torch.full((len(splits),), constants.precision), constants.length_scale, config.draws,
    )  # fmt: skip


def by_grid(config: Config, table: str, splits: Splits, longer: int = 1) -> ProtocolOutcome:
    """The rate and the precision of each split by its validation rows, from a grid.

    The precision has a part in training only through a penalty with l = 0.01, of the order of
    1e-7‖W‖². So networks of one rate are trained once, with the middle of the grid, and all
    precisions are tried on them.
    """
    constants = CONSTANTS[table]
    epochs = longer * grid_epochs(config, table)
    drops = torch.tensor(DROPS).repeat_interleave(len(splits))  # (R·S,)
    of = list(range(len(splits))) * len(DROPS)
    networks = _trained(
        table, splits, splits.rest, of, epochs, 128, drops,
        torch.full((len(of),), constants.grid[1]), 1e-2,
    )  # fmt: skip
    held_out = [splits.validation[k] for k in of]
    scores = torch.stack(
        [
            score(
                networks, precision * splits.scale[of] ** 2, splits, of, held_out, TUNING_DRAWS
            ).log_likelihood
            for precision in constants.grid
        ]
    )  # (P, R·S)
    best = scores.view(len(constants.grid) * len(DROPS), len(splits)).argmax(0)  # (S,)
    precisions = torch.tensor(constants.grid)[best // len(DROPS)]
    chosen = torch.tensor(DROPS)[best % len(DROPS)]
    return _published(table, splits, epochs, 128, chosen, precisions, 1e-2, config.draws)


def by_long_training(config: Config, table: str, splits: Splits) -> ProtocolOutcome:
    """The last training of the newer grid alone, for longer, with what is chosen most often."""
    drop, precision = (torch.full((len(splits),), value) for value in MOST_CHOSEN[table])
    epochs = LONGER * grid_epochs(config, table)
    return _published(table, splits, epochs, 128, drop, precision, 1e-2, config.draws)


def grid_epochs(config: Config, table: str) -> int:
    """Those of the newer grid on a table."""
    return config.grid_epochs // 2 if table == "protein" else config.grid_epochs


def by_clean_protocol(config: Config, table: str, splits: Splits) -> ProtocolOutcome:
    """Rate, length scale and precision by the validation rows of each split alone.

    The precision is learned in training, so that likelihood and prior have consistent units, and
    for prediction it is the optimum on validation rows: no grid bounds it. Networks are then
    trained again on all training rows. Test rows are looked at once, at the end.
    """
    candidates = torch.cartesian_prod(
        torch.tensor(config.drops), torch.tensor(config.length_scales)
    ).view(-1, 2)  # (C, 2)
    count = len(candidates)
    each = candidates.repeat_interleave(len(splits), 0)  # (C·S, 2)
    of = list(range(len(splits))) * count
    steps = max(config.steps, round(config.steps_per_row * len(splits.train[0])))

    def trained(each: Tensor, of: list[int], rows: list[Tensor]) -> list[torch.nn.Module]:
        unknown = torch.full((len(each),), math.nan)
        elbos = members(table, splits, each[:, 0], each[:, 1], unknown, len(rows[0]))
        train(elbos, splits, [rows[k] for k in of], steps)
        return [elbo.model for elbo in elbos]

    held_out = [splits.validation[k] for k in of]
    tried = with_precisions(trained(each, of, splits.rest), torch.ones(len(of)))
    predictives = tried.predict(splits.x, rows=torch.stack(held_out), draws=TUNING_DRAWS)
    precisions, densities = tuned_precisions(predictives, splits, held_out)
    best = densities.view(count, len(splits)).argmax(0)  # (S,)
    own = torch.arange(len(splits))
    precision = precisions.view(count, len(splits))[best, own]
    chosen = candidates[best]
    networks = trained(chosen, own.tolist(), splits.train)
    found = score(networks, precision, splits, own.tolist(), splits.test, config.draws)
    return ProtocolOutcome(found, chosen[:, 0], precision, chosen[:, 1])


def _published(
    table: str,
    splits: Splits,
    epochs: int,
    batch_size: int,
    drops: Tensor,
    precisions: Tensor,
    length_scale: float,
    draws: int,
) -> ProtocolOutcome:
    """Train on all training rows as the authors do, and test."""
    of = list(range(len(splits)))
    networks = _trained(
        table, splits, splits.train, of, epochs, batch_size, drops, precisions, length_scale
    )
    precision = precisions * splits.scale**2
    found = score(networks, precision, splits, of, splits.test, draws)
    return ProtocolOutcome(found, drops, precision, _equivalent(length_scale, drops, splits.scale))


def _trained(
    table: str,
    splits: Splits,
    rows: list[Tensor],
    of: list[int],
    epochs: int,
    batch_size: int,
    drops: Tensor,
    precisions: Tensor,
    length_scale: float,
) -> list[torch.nn.Module]:
    scale = splits.scale[of]
    elbos = members(
        table,
        splits,
        drops,
        _equivalent(length_scale, drops, scale),
        precisions * scale**2,
        len(rows[0]),
    )
    dubio.Population(elbos).fit(
        splits.x,
        splits.y,
        rows=[rows[k] for k in of],
        epochs=epochs,
        batch_size=batch_size,
        progress=False,
    )
    return [elbo.model for elbo in elbos]


def _equivalent(length_scale: float, drops: Tensor, scale: Tensor) -> Tensor:
    """The length scale with which an `ELBO` has the authors' penalty."""
    return length_scale * (1 - drops) * scale.float() / math.sqrt(2)


COMPUTATION = Computation(
    protocol="Nine UCI tables, unless the settings name fewer, with the published random splits, "
        "90 % for training. A network has one hidden layer of 50 ReLU units (100 for protein) "
        "and dropout on features and units. There are three protocols. Paper: rate, length scale "
        "and precision τ as in the authors' code, the same for all splits; Adam, learning rate "
        "10⁻³, batches of 32. Newer grid: the rate from four and τ from three values, selected "
        "by the log-likelihood of each split's validation rows, the last fifth of its training "
        "rows; batches of 128; then retrained on all training rows. Boston, concrete, energy and "
        "yacht are also run with ten times the epochs; on the other tables only the last training "
        "is repeated with as many, with the rate and τ that splits choose most often. Clean: "
        "rate and length scale selected on the same validation rows; τ is learned in training "
        "and set to its optimum on the validation rows for prediction; Adam with a decaying "
        "learning rate, batches of 64; then retrained on all training rows. All splits and "
        "candidates of a table are trained together as one population.",
    scales={
        "smoke": Config(
            tables=("yacht",), splits=2, epochs=2, grid_epochs=2, steps=20, steps_per_row=0.0,
            drops=(0.01, 0.1), draws=10,
        ),
        "small": Config(epochs=100, grid_epochs=100, steps=5000, steps_per_row=0.5, draws=200),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "The paper's hyper-parameters come from a search over the first splits, whose test "
            "rows are training rows of others. We repeat its protocol with that fault; the other "
            "two do not have it.",
        "The authors' penalty l²(1 − p)/(2Nτ)·‖W‖² uses the τ of the raw target although "
            "targets are standardised, and half of the factor that matches their loss. We repeat "
            "it in the paper's protocol and in the newer grid, and correct it in the clean "
            "protocol.",
        "The newer grid was published after 4000 epochs (2000 for protein). Ours has as many "
            "as the paper's protocol, and at the scale paper as many as published on boston, "
            "concrete, energy and yacht.",
        "On the five other tables the search has a tenth of the published epochs; only networks "
            "of the rate and τ chosen most often have them all: by 8 of 20 splits on wine, 10 on "
            "power and more elsewhere. The authors' own search chose these on every split of naval "
            "and on four of five of protein.",
        "Networks of the newer grid are trained once for each rate and evaluated with every "
            "τ, which hardly affects training.",
        "The paper uses 10,000 draws; we use 1000 at the paper scale, and fewer at smaller "
            "scales.",
        "Year prediction, with 463,715 training rows and one split, is left out.",
    ),
)  # fmt: skip
