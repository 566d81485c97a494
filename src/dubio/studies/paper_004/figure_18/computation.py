"""Test errors by epoch, which training has kept."""

from collections.abc import Iterator
from dataclasses import dataclass

from dubio.studies.paper_004.digits import Method, Networks
from dubio.studies.study import Measurement, Piece, Seed

METHODS: tuple[Method, ...] = (
    "gaussian", "slow gaussian", "cold gaussian", "dropout", "plain",
)  # fmt: skip


@dataclass(frozen=True)
class Config(Networks):
    """Settings of the learning curves.

    Attributes:
        widths: Units of a hidden layer.
    """

    widths: tuple[int, ...] = (400, 800, 1200)


def pieces(config: Config) -> list[Piece]:
    """A piece for each network, the widest first."""
    return [
        {"method": method, "width": width, "restart": restart}
        for width in sorted(config.widths, reverse=True)
        for method in METHODS
        for restart in range(1, config.restarts + 1)
    ]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The test error after each epoch."""
    for epoch in config.of(piece, seed).history:
        yield {"metric": "error", "epoch": epoch.epoch, "value": epoch.validation}
