"""Densities of the library's priors, read off their divergences."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Laplace, Normal

from dubio.priors import ScaleMixture
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

MIXING = 0.5
LAPLACE = 0.15  # the paper's b
COMPARED = (0, 6)  # −log σ1 and −log σ2 of the mixture in figure 3


@dataclass(frozen=True)
class Config:
    """Settings of the sketch.

    Attributes:
        sigmas: −log σ1 of the mixtures.
        spikes: −log σ2.
        reach: Weights from minus to plus this.
        points: How many, an odd number, so that zero is among them.
    """

    sigmas: tuple[int, ...] = (0, 1, 2)
    spikes: tuple[int, ...] = (6, 7, 8)
    reach: float = 3.0
    points: int = 201

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if self.points < 11 or self.points % 2 == 0:
            raise ValueError(f"points: expected an odd number from 11 on, got {self.points}.")
        if 0 not in self.sigmas or 6 not in self.spikes:
            raise ValueError(
                "sigmas, spikes: expected 0 and 6 among them, which the claims are about, got "
                f"{self.sigmas} and {self.spikes}."
            )
        if not 0 < self.reach < math.inf:
            raise ValueError(f"reach: expected a positive number, got {self.reach}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each density."""
    mixtures: list[Piece] = [
        {"prior": "mixture", "sigma": sigma, "spike": spike}
        for sigma in config.sigmas
        for spike in config.spikes
    ]
    return [*mixtures, {"prior": "gaussian"}, {"prior": "laplace"}]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The density on a grid, and what lies near zero and in the tails."""
    weights = torch.linspace(-config.reach, config.reach, config.points, dtype=torch.float64)
    weights[config.points // 2] = 0.0
    for at, value in zip(weights.tolist(), log_density(piece, weights).tolist(), strict=True):
        yield {"metric": "log density", "w": round(at, 6), "value": float(f"{value:.6g}")}
    for metric, bound in (("near zero", 0.5), ("tails", 1.0)):
        inside = mass(piece, bound)
        value = inside if metric == "near zero" else 1 - inside
        yield {"metric": metric, "bound": bound, "value": value}


def log_density(piece: Piece, weights: Tensor) -> Tensor:
    """Of the mixture by its divergence: log p(w) = log q(w) − KL, at q = N(w, 1) without noise."""
    known = {"gaussian": Normal(0.0, 1.0), "laplace": Laplace(0.0, LAPLACE)}
    if (named := known.get(str(piece["prior"]))) is not None:
        logs: Tensor = named.log_prob(weights)
        return logs
    first, second = deviations(piece)
    prior = ScaleMixture(MIXING, first, second)
    one, none = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    gaps = [prior.kl(weight[None], one, none) for weight in weights]
    return -0.5 * math.log(2 * math.pi) - torch.stack(gaps)


def mass(piece: Piece, bound: float) -> float:
    """The probability of |w| < bound."""
    if piece["prior"] == "laplace":
        return 1 - math.exp(-bound / LAPLACE)
    scales = (1.0,) if piece["prior"] == "gaussian" else deviations(piece)
    shares = [math.erf(bound / scale / math.sqrt(2)) for scale in scales]
    return sum(shares) / len(shares)  # the components weigh alike


def deviations(piece: Piece) -> tuple[float, float]:
    """σ1 and σ2 of a mixture."""
    return math.exp(-int(str(piece["sigma"]))), math.exp(-int(str(piece["spike"])))


COMPUTATION = Computation(
    protocol="Densities of mixtures with −log σ1 in {0, 1, 2}, −log σ2 in {6, 7, 8} and π = 0.5, "
    "from the divergence that the library trains with, next to N(0, 1) and Laplace with b = 0.15; "
    "and the probabilities near zero and in the tails.",
    scales={"smoke": Config(points=41), "small": Config(), "paper": Config()},
    pieces=pieces,
    run=run,
    deviations=("The paper does not give the scales of figure 3: here they are those of its "
                "digits.",),
)  # fmt: skip
