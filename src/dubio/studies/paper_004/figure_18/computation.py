"""Test errors by epoch, which training has kept."""

from collections.abc import Iterator

from dubio.studies.paper_004.digits import Method, NetworksByWidth
from dubio.studies.study import Measurement, Piece, Seed

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
