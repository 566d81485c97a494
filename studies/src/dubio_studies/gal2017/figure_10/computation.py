"""Relaxed masks of the library on a grid of uniform noise."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from dubio.masks import Concrete
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.gal2017.figure_10.published import TEMPERATURE


@dataclass(frozen=True)
class Config:
    """Settings of the sketch.

    Attributes:
        drops: Dropout rates.
        temperatures: Of the relaxation.
        points: Values of the uniform noise, evenly spaced.
    """

    drops: tuple[float, ...] = (0.1, 0.5)
    temperatures: tuple[float, ...] = (TEMPERATURE, 2 / 3)
    points: int = 400

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if self.points < 10:
            raise ValueError(f"points: expected at least 10, got {self.points}.")
        if not (self.drops and all(0 < drop < 1 for drop in self.drops)):
            raise ValueError(f"drops: expected rates in (0, 1), got {self.drops}.")
        if not (self.temperatures and all(0 < t < math.inf for t in self.temperatures)):
            raise ValueError(f"temperatures: expected positive numbers, got {self.temperatures}.")
        if TEMPERATURE not in self.temperatures:
            raise ValueError(
                f"temperatures: expected the paper's {TEMPERATURE:g} among them, got "
                f"{self.temperatures}."
            )


def pieces(config: Config) -> list[Piece]:
    """A piece for each rate and temperature."""
    return [
        {"drop": drop, "temperature": temperature}
        for drop in config.drops
        for temperature in config.temperatures
    ]


@torch.no_grad()
def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The relaxed indicator of dropping, 1 − keep·mask, at the middle of every interval of u."""
    mask = Concrete(drop=float(str(piece["drop"])), temperature=float(str(piece["temperature"])))
    noise = (torch.arange(config.points) + 0.5) / config.points
    kept = mask.keep * mask.multiplier(0, noise[:, None])[:, 0]
    for u, z in zip((1 - noise).tolist(), (1 - kept).clamp(0, 1).tolist(), strict=True):
        yield {"metric": "dropped", "u": round(u, 6), "value": float(f"{z:.6g}")}


COMPUTATION = Computation(
    protocol="Eq. 5 by the library's Concrete mask: the relaxed indicator of dropping a unit, "
    "z̃ = σ((logit p + logit u)/t), on an even grid of uniform noise u.",
    scales={"smoke": Config(points=50), "small": Config(), "paper": Config()},
    pieces=pieces,
    run=run,
    deviations=("The paper's figure has one rate at temperature 0.1; 2/3 is that of its code for "
                "channels.",),
)  # fmt: skip
