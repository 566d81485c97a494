"""Coins are thrown, and the heads counted."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from dubio_studies.framework.study import Computation, Measurement, Piece, Seed


@dataclass(frozen=True)
class Config:
    """Settings; these sentences become the help of the options.

    Attributes:
        sizes: Numbers of throws.
    """

    sizes: tuple[int, ...] = (10, 100, 10_000)

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if min(self.sizes) < 1:
            raise ValueError(f"sizes: expected at least 1, got {min(self.sizes)}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each number of throws."""
    return [{"method": "coin", "size": size} for size in config.sizes]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The share of heads."""
    heads = torch.rand(int(piece["size"] or 0)) < 0.5  # torch is seeded with seed.own
    yield {"metric": "share", "value": float(heads.double().mean())}


COMPUTATION = Computation(
    protocol="Fair coins are thrown, and the heads counted.",
    scales={"smoke": Config((10,)), "small": Config((10, 100)), "paper": Config()},
    pieces=pieces,
    run=run,
    deviations=("The paper does not say which coin; ours is torch's generator.",),
)
