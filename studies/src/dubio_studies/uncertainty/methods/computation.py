"""Ten methods on tables, nine of them on digits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast, get_args

from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.uci.splits import check_splits
from dubio_studies.uci.tables import TABLES, longest_first
from dubio_studies.uncertainty.digits_vs_shift.images import Source, load
from dubio_studies.uncertainty.methods.digits import on_digits
from dubio_studies.uncertainty.methods.networks import Method
from dubio_studies.uncertainty.methods.tables import SHIFT, on_table


@dataclass(frozen=True)
class Config:
    """Settings of the comparison.

    Attributes:
        tables: Data sets of UCI.
        splits: Random splits of each; protein has 5 at most.
        hidden: Units of the hidden layer on tables.
        steps: Of training on tables.
        longer: Tables on which networks are also trained twice as long.
        source: mnist, against Fashion-MNIST and notMNIST; or digits, those of scikit-learn.
        restarts: Networks, or ensembles, of each method on digits; none leaves digits out.
        images: Digits to learn from.
        test_images: Images of each set to predict.
        width: Units of each of the two hidden layers on digits.
        epochs: How often training goes through the digits.
        draws: Stochastic passes for a prediction.
        members: Networks of an ensemble.
    """

    tables: tuple[str, ...] = TABLES
    splits: int = 20
    hidden: int = 50
    steps: int = 20_000
    longer: tuple[str, ...] = ()
    source: Source = "mnist"
    restarts: int = 5
    images: int = 60_000
    test_images: int = 10_000
    width: int = 400
    epochs: int = 50
    draws: int = 100
    members: int = 5

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        for name, tables in (("tables", self.tables), ("longer", self.longer)):
            if unknown := set(tables) - set(TABLES):
                raise ValueError(f"{name}: expected some of {', '.join(TABLES)}, got {unknown}.")
        check_splits(self.splits)
        for name in ("hidden", "steps", "images", "test_images", "width", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}.")
        if (lowest := min(self.draws, self.members)) < 2:
            raise ValueError(
                f"draws, members: expected at least 2, got {lowest}; one has no spread."
            )


def pieces(config: Config) -> list[Piece]:
    """A piece for each method on each table, and for each method and restart on digits."""
    tables: list[Piece] = [
        {"part": part, "table": table, "method": method}
        for part, names in (("longer", config.longer), ("tables", config.tables))
        for table in longest_first(names)
        for method in get_args(Method)
    ]
    digits: list[Piece] = [
        {"part": "digits", "restart": restart, "method": method}
        for restart in range(1, config.restarts + 1)
        for method in get_args(Method)
        if method != "linear"
    ]
    return [*tables, *digits]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The rows of a piece."""
    method = cast(Method, piece["method"])
    if piece["part"] in ("tables", "longer"):
        yield from on_table(
            method,
            str(piece["table"]),
            splits=config.splits,
            hidden=config.hidden,
            steps=config.steps * (2 if piece["part"] == "longer" else 1),
            draws=config.draws,
            members=config.members,
        )
        return
    sets = load(config.source, config.images, config.test_images, seed.common)
    yield from on_digits(
        method,
        sets,
        hidden=config.width,
        epochs=config.epochs,
        draws=config.draws,
        members=config.members,
    )


COMPUTATION = Computation(
    protocol="Tables: the published random splits of UCI data sets, 90 % to train on, one hidden "
    "layer of rectifiers. Every method has three candidates, of its prior or its dropout rate, and "
    "the log-likelihood of the last fifth of the training rows chooses; the noise precision is "
    "tuned on the same rows, and the network trained again on all of them. Shifted rows are test "
    f"rows with noise of {SHIFT:g} standard deviations added to every feature; the AUROC says how "
    "well the spread of the draws tells them from test rows. Tables named as longer are also run "
    "with twice the steps. Digits: networks pixels–h–h–10 learn MNIST by Adam with the same number "
    "of epochs, nothing tuned; the AUROC of mutual information tells other images from digits, for "
    "the plain network that of entropy. Costs are CPU time, divided by that of the plain network "
    "on the same data.",
    scales={
        "smoke": Config(
            tables=("yacht",), splits=2, hidden=8, steps=10, longer=("yacht",), source="digits",
            restarts=1, images=100, test_images=50, width=8, epochs=1, draws=3, members=2,
        ),
        "small": Config(
            splits=5, steps=5_000, longer=("energy", "yacht"), restarts=3, images=5_000,
            test_images=2_000, width=200, epochs=10, draws=30,
        ),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "Candidates are three for each method; a longer search might change the order. On digits "
        "nothing is tuned: dropout rates are 0.2, or start there, and priors have l = 0.1.",
        "The noisy methods have no more steps than the plain network, though noise slows learning.",
        "Members of a population train together, so that costs on tables are those of networks of "
        "this size, trained many at once.",
    ),
)  # fmt: skip
