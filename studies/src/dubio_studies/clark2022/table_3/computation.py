"""How often the networks of section 4.2 err, by one pass and by the average over many."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

import dubio
from dubio import metrics
from dubio_studies.clark2022.deviations import DEVIATIONS
from dubio_studies.clark2022.digits import BAYESIAN, PAPER, SMALL, SMOKE, Method, NetworksByWidth
from dubio_studies.clark2022.reading import read, readings
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.mnist.training import wrong

METHODS: tuple[Method, ...] = (
    "mixture", "cold mixture", "gaussian", "slow gaussian", "cold gaussian", "dropout", "plain",
)  # fmt: skip
DOUBLE_METHODS: tuple[Method, ...] = ("gaussian", "dropout", "plain")
PRINTED: tuple[Method, ...] = ("mixture", "gaussian", "dropout", "plain")  # by the paper
WIDER = (3, 2)  # times the narrowest width: the other two of the paper, if that is 400


@dataclass(frozen=True)
class Config(NetworksByWidth):
    """Settings of the table.

    Attributes:
        double_widths: Units of networks with the authors' double softmax.
    """

    double_widths: tuple[int, ...] = (400,)

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        super().__post_init__()
        checks.each_at_least(1, double_widths=self.double_widths)


def pieces(config: Config) -> list[Piece]:
    """A piece for each network, the widest first.

    Of the authors' variant there is one network a kind, and so there is at twice and three times
    the narrowest width, where the settings leave them out.
    """
    wider: list[Piece] = [
        {"method": method, "width": width, "restart": 1}
        for width in (times * min(config.widths) for times in WIDER)
        for method in PRINTED
        if width not in config.widths
    ]
    double: list[Piece] = [
        {"method": method, "width": width, "restart": 1, "loss": "double softmax"}
        for width in config.double_widths
        for method in DOUBLE_METHODS
    ]
    single = [*wider, *config.pieces(METHODS)]
    return [*({**piece, "loss": "cross-entropy"} for piece in single), *double]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Recognise the test digits in one pass, and by draws if there is noise."""
    method, digits = cast(Method, piece["method"]), config.digits()
    network = config.of(piece, seed).network
    if method in BAYESIAN:
        with torch.no_grad():
            yield {"metric": "kl", "value": float(dubio.kl(network)) / len(digits.train)}
    if piece["loss"] == "double softmax":  # the likelihood has one already
        network = cast(nn.Sequential, network)[:-1]
    for reading in readings(method):
        predictive = read(network, digits.test, reading, config.draws, seed)
        row: Measurement = {"reading": reading, "cases": len(digits.test)}
        error = wrong(predictive.mean, digits.test_labels)
        yield {**row, "metric": "error", "value": float(error)}
        nll = metrics.nll(predictive, digits.test_labels)
        yield {**row, "metric": "nll", "value": float(nll)}


COMPUTATION = Computation(
    protocol="ReLU networks with layers pixels–h–h–10 are trained on all training digits of "
    "MNIST: with Bayes by Backprop and a Gaussian prior or a mixture of two Gaussians, with "
    "dropout of pixels and hidden units, and with neither. Bayes by Backprop predicts with "
    "an average over draws of all weights, as in the paper, and with the mean weights alone; "
    "dropout predicts in one pass without masks, as in the paper, and with an average over "
    "masks. There are three variants. Double softmax: the authors' softmax in the network "
    "and another in its loss, one network of each kind. Slow: Bayes by Backprop with the "
    "paper's Gaussian prior, the full KL, and a low learning rate for the deviations. Cold: "
    "Bayes by Backprop with less weight on the KL. At twice and three times the smallest width "
    "there is one network of each of the paper's four kinds, if the settings do not ask for more.",
    scales={
        "smoke": Config(**SMOKE, widths=(16,), double_widths=(16,)),
        "small": Config(**{**SMALL, "restarts": 3}, widths=(400,)),
        "paper": Config(**PAPER),
    },
    pieces=pieces,
    run=run,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "We use all 10,000 test digits. An earlier version of the authors' code left out the "
        "last 16.",
    ),
)
