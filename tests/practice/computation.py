"""Quick pieces that write down that they were computed."""

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from dubio_studies.framework.recipe import piece_key
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        size: How many pieces.
        pause: Seconds that a piece takes.
        log: File for the keys of computed pieces.
        fail: A piece that fails, or -1.
        shape: A choice.
        flag: A switch.
        limit: A number or nothing.
    """

    size: int = 5
    pause: float = 0.0
    log: str = ""
    fail: int = -1
    shape: tuple[int, ...] = (1, 2)
    flag: bool = False
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size: expected at least 1, got {self.size}.")


def pieces(config: Config) -> list[Piece]:
    return [{"method": "dice", "number": number} for number in range(config.size)]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    time.sleep(config.pause)
    if piece["number"] == config.fail:
        raise RuntimeError("this piece is told to fail")
    if config.log:
        with open(config.log, "a") as log:
            log.write(f"{os.getpid()} {piece_key(piece)}\n")
    x = torch.randn(4000, dtype=torch.float32)
    yield {"metric": "sum", "value": float(x.sum() + (x @ x))}
    yield {"metric": "numpy", "value": float(np.random.rand())}
    yield {"metric": "python", "value": random.Random(seed.own).random()}
    yield {"metric": "own", "value": seed.own}
    yield {"metric": "common", "value": seed.common}


COMPUTATION = Computation(
    protocol="Draws numbers.",
    scales={"smoke": Config(size=3), "small": Config(), "paper": Config(size=8)},
    pieces=pieces,
    run=run,
)
