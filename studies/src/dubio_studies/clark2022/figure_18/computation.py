"""Test errors by epoch, which training has kept."""

from collections.abc import Iterator

from dubio_studies.clark2022.deviations import DEVIATIONS
from dubio_studies.clark2022.digits import SCALES_BY_WIDTH, Method, NetworksByWidth
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

METHODS: tuple[Method, ...] = (
    "gaussian", "slow gaussian", "cold gaussian", "dropout", "plain",
)  # fmt: skip


def pieces(config: NetworksByWidth) -> list[Piece]:
    """A piece for each network."""
    return config.pieces(METHODS)


def run(config: NetworksByWidth, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The test error after each epoch."""
    for epoch in config.of(piece, seed).history:
        yield {"metric": "error", "epoch": epoch.epoch, "value": epoch.validation}


COMPUTATION = Computation(
    protocol="The networks of table 3 that are plain, have dropout or a Gaussian prior, the slow "
    "and the cold variant of that included, are watched while they learn: after each epoch, the "
    "share of test digits that one pass gets wrong, by the mean weights of Bayes by Backprop and "
    "without dropout's masks.",
    scales=SCALES_BY_WIDTH,
    pieces=pieces,
    run=run,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "The paper does not say how the Bayesian network predicts while it learns; here by its "
        "mean weights.",
        "As the rate falls along a cosine, curves settle towards the end of their epochs, whatever "
        "their number; the paper's rate is constant. When networks converge depends on this.",
    ),
)
