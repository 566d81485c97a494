"""Networks that lose more and more of their weights, and what they still recognise."""

import copy
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

import dubio
from dubio.layers.bayesian import bayesian_layers
from dubio.layers.pruning import Pruned
from dubio_studies.clark2022.authors import AUTHORS, network_of
from dubio_studies.clark2022.deviations import DEVIATIONS
from dubio_studies.clark2022.digits import SCALES_BY_WIDTH, Method, NetworksByWidth
from dubio_studies.clark2022.reading import read, readings
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

METHODS: tuple[Method, ...] = ("mixture", "cold mixture", "gaussian", "cold gaussian")
SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)  # of weights that go
LOWEST, HIGHEST = -40, 20  # decibels; bins are one wide, and the outer ones hold all beyond


def pieces(config: NetworksByWidth) -> list[Piece]:
    """A piece for each network; by the authors' protocol there is one, the narrowest."""
    authors: Piece = {"method": AUTHORS, "width": min(config.widths), "restart": 1}
    return [authors, *config.pieces(METHODS)]


def run(config: NetworksByWidth, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Prune a network, each time from the start; draws have the same noise at every share."""
    digits = config.digits()
    network = network_of(config, piece, cast(int, piece["width"]), seed)
    yield from ratio_rows(network)
    whole: dict[str, Tensor] = {}
    for share in SHARES:
        left = copy.deepcopy(network)
        yield from kept_rows(dubio.prune(left, share), share)
        for reading in readings(str(piece["method"])):
            predictive = read(left, digits.test, reading, config.draws, seed)
            wrong = (predictive.mean.argmax(-1) != digits.test_labels).double()  # (B,)
            whole.setdefault(reading, wrong)
            for metric, values in (("wrong", wrong), ("cost", wrong - whole[reading])):
                yield {
                    "metric": metric,
                    "reading": reading,
                    "share": share,
                    "value": float(values.mean()),
                    "error": float(values.std() / len(values) ** 0.5),
                    "cases": len(values),
                }


def kept_rows(pruned: Pruned, share: float) -> Iterator[Measurement]:
    """The share of each layer's weights that is left, biases included."""
    names = dict.fromkeys(tensor.name.rpartition(".")[0] for tensor in pruned)
    for layer, name in enumerate(names, start=1):
        own = Pruned(tensor for tensor in pruned if tensor.name.rpartition(".")[0] == name)
        yield {"metric": "kept", "share": share, "layer": layer, "value": own.share}


def ratio_rows(network: nn.Module) -> Iterator[Measurement]:
    """Signal-to-noise ratios in decibels: medians by layer, and shares of all weights in bins."""
    decibels = [ratios(layer) for layer in bayesian_layers(network).values()]
    total = sum(map(len, decibels))
    for layer, values in enumerate(decibels, start=1):
        yield {"metric": "median ratio", "layer": layer, "value": float(values.median())}
        counts = torch.histc(values, HIGHEST - LOWEST, LOWEST, HIGHEST)
        for decibel, count in enumerate(counts.tolist(), start=LOWEST):
            yield {
                "metric": "ratios",
                "layer": layer,
                "decibel": decibel,
                "value": count / total,
            }


@torch.no_grad()
def ratios(layer: dubio.Bayesian) -> Tensor:  # (weights,)
    """10 log10 |μ|/σ, cut at the ends of the histogram."""
    means = torch.cat([mean.flatten() for mean in layer.means().values()])
    deviations = torch.cat([sigma.flatten() for sigma in layer.deviations().values()])
    return (10 * (means.abs() / deviations).log10()).clamp(LOWEST, HIGHEST)


COMPUTATION = Computation(
    protocol="Networks with two hidden layers are trained on MNIST with Bayes by Backprop and "
    "two priors; a variant called cold gives the KL less weight, and one network is trained by the "
    "authors' protocol, as in clark2022/kl-terms. Their weights, including "
    "biases, are ranked by the signal-to-noise ratio |μ|/σ over all layers. A growing share "
    "of the lowest is set to zero in mean and deviation, without further training. All test "
    "images are classified with draws of the remaining weights, and with their means.",
    scales=SCALES_BY_WIDTH,
    pieces=pieces,
    run=run,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "The paper replaces posteriors by a Dirac delta; we assume that it is at zero, since "
        "Blundell et al. remove such weights.",
        "The paper also prunes networks after 300 of 600 epochs; we prune at the end only.",
    ),
)
