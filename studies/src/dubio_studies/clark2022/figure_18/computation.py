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
    protocol="The plain networks of table 3, those with dropout and those with a Gaussian prior, "
    "including its slow and cold variants, are tested after each epoch of training: the test "
    "error of one pass, with the mean weights of Bayes by Backprop and without dropout's "
    "masks.",
    scales=SCALES_BY_WIDTH,
    pieces=pieces,
    run=run,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "The paper does not say how the Bayesian network predicts during training; we use "
        "its mean weights.",
        "Our learning rate falls along a cosine, so curves settle towards the last epochs, "
        "whatever their number; the paper's rate is constant. The time to convergence "
        "depends on this.",
    ),
)
