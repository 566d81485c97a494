"""Weights of trained networks: their histogram, how wide it is, and how heavy its tails are."""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

import dubio
from dubio_studies.clark2022.authors import VARIANTS, network_of
from dubio_studies.clark2022.deviations import DEVIATIONS
from dubio_studies.clark2022.digits import BAYESIAN, SCALES_BY_WIDTH, Method, NetworksByWidth
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

METHODS: tuple[Method, ...] = (*BAYESIAN, "dropout", "plain")
BINS = 81  # an odd number: zero is in the middle of one
SHOWN = 0.999  # of the weights are within the bins
MIDDLE = 0.9  # of the weights are within the width


def pieces(config: NetworksByWidth) -> list[Piece]:
    """A piece for each network; by the authors' protocol there is one a prior, the narrowest."""
    narrow = min(config.widths)
    authors: list[Piece] = [{"method": m, "width": narrow, "restart": 1} for m in VARIANTS]
    return [*authors, *config.pieces(METHODS)]


def run(config: NetworksByWidth, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Measures of the weights and, for the first restart, their histogram."""
    network = network_of(config, piece, cast(int, piece["width"]), seed).requires_grad_(False)
    random = piece["method"] in (*BAYESIAN, *VARIANTS)
    found = {"means" if random else "trained": weights(network)}
    if random:
        found["drawn"] = drawn_weights(network, torch.Generator().manual_seed(seed.own))
    for which, values in found.items():
        for row in measures(values):
            yield {"weights": which, **row}
        if piece["restart"] == 1:
            for row in histogram(values):
                yield {"weights": which, **row}


def weights(network: nn.Module) -> Tensor:  # -> (weights,)
    """Those of all linear layers; of Bayesian ones, which keep them in the layer, the means."""
    return torch.cat([m.weight.flatten() for m in network.modules() if isinstance(m, nn.Linear)])


def drawn_weights(network: nn.Module, generator: torch.Generator) -> Tensor:  # -> (weights,)
    """One draw of a Bayesian network's."""
    layers = [module for module in network.modules() if isinstance(module, dubio.Bayesian)]
    deviations = torch.cat([layer.deviations()["weight"].flatten() for layer in layers])
    noise = torch.randn(len(deviations), generator=generator)
    return torch.addcmul(weights(network), deviations, noise)


def measures(values: Tensor) -> Iterator[Measurement]:
    """Deviation, width and excess kurtosis, which is 0 for a Gaussian."""
    values = values.double()
    deviation, mean = torch.std_mean(values, correction=0)
    tail = (1 - MIDDLE) / 2
    low, high = values.quantile(torch.tensor([tail, 1 - tail], dtype=values.dtype)).tolist()
    kurtosis = ((values - mean) / deviation).pow(4).mean() - 3
    yield {"metric": "deviation", "value": float(deviation)}
    yield {"metric": "width", "value": high - low}
    yield {"metric": "kurtosis", "value": float(kurtosis)}


def histogram(values: Tensor) -> Iterator[Measurement]:
    """Densities in bins of equal width around zero, by which outliers are not seen."""
    limit = float(values.abs().quantile(SHOWN))
    counts = torch.histc(values, BINS, -limit, limit)
    step = 2 * limit / BINS
    for number, density in enumerate((counts / (len(values) * step)).tolist()):
        yield {"metric": "density", "left": number * step - limit, "value": density}


COMPUTATION = Computation(
    protocol="The weights, without biases, of all three layers of the networks of table 3, "
    "including the slow and cold variants, and of one more with a Laplace prior. With the "
    "narrowest width there are also two networks by the authors' protocol of kl-terms, with the "
    "paper's priors N(0, 1) and Laplace with b = 0.15. For Bayes by Backprop the weights are one "
    "draw from the posterior, or its means.",
    scales=SCALES_BY_WIDTH,
    pieces=pieces,
    run=run,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "The paper does not say whether its Bayesian weights are draws, as in Blundell et "
        "al., or means. We show both, and judge claims by the draws.",
        "The claim about the Laplace prior was undecided with our scales of the priors. Its rule "
        "is the same; it is now judged by networks with the paper's.",
        "Weights of the first layer depend on the scale of the pixels: for the same outputs "
        "they are about half of those for pixels in [0, 1].",
    ),
)
