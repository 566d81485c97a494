"""Networks of the comparison: their kinds, and how the authors' start and learn."""

import math
from collections.abc import Callable
from statistics import median
from typing import Literal, NamedTuple, final

import torch
from torch import Tensor, nn

import dubio
from dubio.priors import Gaussian, Laplace, Prior, ScaleMixture
from dubio_studies.clark2022.digits import Networks
from dubio_studies.clark2022.kl_terms.mixture_bound import BoundedMixture
from dubio_studies.framework.study import Piece
from dubio_studies.mnist.images import CLASSES, PIXELS

KLVariant = Literal[
    "authors",
    "even",
    "authors held",
    "even held",
    "authors rate",
    "authors mixture",
    "authors laplace",
    "mixture by draws",
    "mixture by bound",
]
"""The authors' weights of the KL with the prior N(0, 1); even ones, all else equal; both with a
rate that is held longer; the authors' weights and rate; their weights with their mixture and with
their Laplace prior. The protocol of table-3 with its mixture: the KL from the weights that are
drawn, or a bound on it without noise."""

OURS: tuple[KLVariant, ...] = ("mixture by draws", "mixture by bound")
HELD: tuple[KLVariant, ...] = ("authors held", "even held")
MEANS = 0.2  # μ ~ U(−.2, .2) at the start
RHO = (-5.0, -4.0)  # ρ ~ U(−5, −4) at the start
MIXTURE = (0.5, 1.0, math.exp(-7))  # π, σ1 and σ2 of the paper
LAPLACE = 0.15  # b of the paper
BYTE = 255.0  # pixels are divided by it
HELD_FOR = 5  # times as long as otherwise, before the only cut
AFTER_CUT = 5  # epochs at the authors' rate after its first cut


class Schedule(NamedTuple):
    """How long a network learns, and how fast.

    Attributes:
        epochs: How often it goes through the images.
        decay_every: Epochs after which the learning rate is divided by ten.
        learning_rate: Of Adam, at the start.
    """

    epochs: int
    decay_every: int
    learning_rate: float


def schedule_of(variant: KLVariant, usual: Schedule, authors: Schedule) -> Schedule:
    """That of a variant.

    Args:
        variant: The variant.
        usual: Of variants that are not about the schedule.
        authors: That of the authors, of which a variant has the start.
    """
    if variant in HELD:
        held = HELD_FOR * usual.decay_every
        return Schedule(held + usual.decay_every // 2, held, usual.learning_rate)
    if variant == "authors rate":
        return authors._replace(epochs=authors.decay_every + AFTER_CUT)
    return usual


def prior_of(variant: KLVariant) -> Prior:
    """What a weight is beforehand."""
    ours = (0.5, Networks.slab_sigma, Networks.spike_sigma)
    match variant:
        case "authors mixture":
            return ScaleMixture(*MIXTURE)
        case "authors laplace":
            return Laplace(LAPLACE)
        case "mixture by draws":
            return ScaleMixture(*ours)
        case "mixture by bound":
            return BoundedMixture(*ours)
        case _:
            return Gaussian(1.0)


@final
class Bytes(nn.Module):
    """Bytes as numbers from 0 to 1, as in the authors' code."""

    def forward(self, images: Tensor) -> Tensor:
        """Divide by 255."""
        return images / BYTE


def perceptron(
    layer: Callable[[int, int], nn.Module], width: int, scaled: nn.Module
) -> nn.Sequential:
    """Bytes – width – width – 10 with ReLU."""
    return nn.Sequential(
        scaled,
        nn.Flatten(),
        layer(PIXELS, width),
        nn.ReLU(),
        layer(width, width),
        nn.ReLU(),
        layer(width, CLASSES),
    )


def as_started(layer: dubio.Bayesian) -> dubio.Bayesian:
    """With means and deviations as the authors start from."""
    with torch.no_grad():
        for mean in layer.layer.parameters():
            mean.uniform_(-MEANS, MEANS)
        layer.rho.uniform_(*RHO)
    return layer


def start_of(piece: Piece) -> float:
    """The median deviation that a network starts from."""
    if piece["variant"] in OURS:
        return Networks.deviation
    return math.log1p(math.exp(median(RHO)))


@torch.no_grad()
def median_deviation(network: nn.Module) -> float:
    """Of all random weights."""
    each = [
        deviation.flatten()
        for layer in network.modules()
        if isinstance(layer, dubio.Bayesian)
        for deviation in layer.deviations().values()
    ]
    return float(torch.cat(each).median())
