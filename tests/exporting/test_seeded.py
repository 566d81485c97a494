"""Noise that a graph makes of a seed."""

import math

import torch
from torch import Tensor

from dubio.exporting.hashed import hashed_noise
from dubio.exporting.noise_inputs import NoiseInput
from dubio.noise.protocols import Distribution


def made(distribution: Distribution, seed: int = 7, *, place: int = 0, rows: int = 500) -> Tensor:
    keep = 0.3 if distribution == "bernoulli" else None
    noise = NoiseInput("", "", distribution, keep, (-1, 40), torch.float32, (place,))
    return hashed_noise(torch.tensor(seed), noise, 5, rows)


def test_moments() -> None:
    """Means and mean squares of 100,000 numbers.

    Each of six is off by more than 5.5 standard errors with a chance of 4e-8.
    """
    known: dict[Distribution, tuple[float, float, float, float]] = {
        "bernoulli": (0.3, 0.3, 0.21, 0.21),  # means of z and z², variances of z and z²
        "uniform": (0.5, 1 / 3, 1 / 12, 4 / 45),
        "normal": (0.0, 1.0, 1.0, 2.0),
    }
    for distribution, (mean, square, variance, of_square) in known.items():
        x = made(distribution).double()
        for found, expected, spread in (
            (x.mean(), mean, variance),
            (x.square().mean(), square, of_square),
        ):
            assert abs(float(found) - expected) < 5.5 * math.sqrt(spread / x.numel())


def test_places_draws_rows_and_seeds_are_independent() -> None:
    """Correlations of 100,000 or 80,000 normal numbers with others.

    Each of five is beyond 5.5/√n with a chance of 4e-8.
    """
    x = made("normal").double()
    others = {
        "seed": (x, made("normal", 8).double()),
        "place": (x, made("normal", place=1).double()),
        "draw": (x[1:], x[:-1]),
        "row": (x[:, 1:], x[:, :-1]),
        "unit": (x[:, :, 1:], x[:, :, :-1]),
    }
    for name, (a, b) in others.items():
        assert abs(float((a * b).mean())) < 5.5 / math.sqrt(a.numel()), name


def test_a_row_keeps_its_noise_in_a_longer_batch() -> None:
    assert torch.equal(made("uniform", rows=3), made("uniform", rows=9)[:, :3])


def test_uniform_numbers_are_below_one() -> None:
    u = made("uniform", rows=5000)
    assert u.min() >= 0
    assert u.max() < 1
    assert torch.equal(u * 2**24, (u * 2**24).floor())
