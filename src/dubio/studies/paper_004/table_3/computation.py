"""How often the networks of section 4.2 err, by one pass and by the average over many."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

import dubio
from dubio import metrics
from dubio.likelihoods import Categorical
from dubio.predictive import Predictive, StoredDraws
from dubio.studies.mnist.training import wrong
from dubio.studies.paper_004.digits import BAYESIAN, Loss, Method, Networks
from dubio.studies.study import Measurement, Piece, Seed

METHODS: tuple[Method, ...] = (
    "mixture", "cold mixture", "gaussian", "slow gaussian", "cold gaussian", "dropout", "plain",
)  # fmt: skip
DOUBLE_METHODS: tuple[Method, ...] = ("gaussian", "dropout", "plain")


@dataclass(frozen=True)
class Config(Networks):
    """Settings of the table.

    Attributes:
        widths: Units of a hidden layer.
        double_widths: Those for which the authors' double softmax is tried, too.
    """

    widths: tuple[int, ...] = (400, 800, 1200)
    double_widths: tuple[int, ...] = (400,)


def pieces(config: Config) -> list[Piece]:
    """A piece for each network, the widest first; of the authors' variant there is one a kind."""
    kinds: list[tuple[int, Loss, Method]] = [
        *((w, "cross-entropy", method) for w in config.widths for method in METHODS),
        *((w, "double softmax", method) for w in config.double_widths for method in DOUBLE_METHODS),
    ]
    return [
        {"method": method, "width": width, "loss": loss, "restart": restart}
        for width, loss, method in sorted(kinds, key=lambda kind: -kind[0])
        for restart in range(1, 2 if loss == "double softmax" else config.restarts + 1)
    ]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Recognise the test digits in one pass, and by draws if there is noise."""
    network, digits = config.of(piece, seed).network, config.digits()
    if piece["method"] in BAYESIAN:
        with torch.no_grad():
            yield {"metric": "kl", "value": float(dubio.kl(network)) / len(digits.train)}
    if piece["loss"] == "double softmax":  # the likelihood below takes that of the network
        network = cast(nn.Sequential, network)[:-1]
    with torch.no_grad():
        predictions = {
            "one pass": Predictive(Categorical(), StoredDraws(network(digits.test)[None]))
        }
    if piece["method"] != "plain":
        predictions["draws"] = dubio.predict(
            network,
            digits.test,
            draws=config.draws,
            likelihood=Categorical(),
            shared=True,  # a draw is one network
            generator=torch.Generator().manual_seed(seed.own),
        )
    for name, predictive in predictions.items():
        row: Measurement = {"prediction": name, "cases": len(digits.test)}
        error = wrong(predictive.mean, digits.test_labels)
        yield {**row, "metric": "error", "value": float(error)}
        nll = metrics.nll(predictive, digits.test_labels)
        yield {**row, "metric": "nll", "value": float(nll)}
