"""How sure networks are, and how often they are right, image by image and bin by bin."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import stdev
from typing import cast

import torch
from torch import Tensor, nn

from dubio import metrics
from dubio.likelihoods import Categorical
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio_studies.clark2022.authors import AUTHORS, network_of
from dubio_studies.clark2022.deviations import DEVIATIONS
from dubio_studies.clark2022.digits import PAPER, SMALL, SMOKE, Networks
from dubio_studies.clark2022.reading import read, readings
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks

NETWORKS = (
    (AUTHORS, "cross-entropy"),
    ("mixture", "cross-entropy"),
    ("cold mixture", "cross-entropy"),
    ("gaussian", "cross-entropy"),
    ("slow gaussian", "cross-entropy"),
    ("cold gaussian", "cross-entropy"),
    ("gaussian", "double softmax"),
    ("dropout", "cross-entropy"),
    ("dropout", "double softmax"),
    ("plain", "cross-entropy"),
    ("plain", "double softmax"),
)  # those that take longest first


@dataclass(frozen=True)
class Config(Networks):
    """Settings of the calibration.

    Attributes:
        width: Units per hidden layer.
        resamples: Resamples of the test images for the standard error of ECE.
    """

    width: int = 1200
    resamples: int = 200

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        super().__post_init__()
        checks.at_least(1, width=self.width)
        checks.at_least(2, resamples=self.resamples)


def pieces(config: Config) -> list[Piece]:
    """A piece for each network."""
    return [
        {"method": method, "loss": loss, "restart": restart}
        for method, loss in NETWORKS
        for restart in range(1, config.restarts + 1)
    ]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Read a network in all ways, and compare its confidence with its hits."""
    digits = config.digits()
    twice = piece["loss"] == "double softmax"
    network = cast(nn.Sequential, network_of(config, piece, config.width, seed))
    scores = network[:-1] if twice else network  # logits: their probabilities never underflow
    for reading in readings(str(piece["method"])):
        once = read(scores, digits.test, reading, config.draws, seed)
        for softmaxes, predictive in enumerate([once, softened(once)] if twice else [once], 1):
            for row in measured(predictive, digits.test_labels, config.resamples):
                yield {"reading": reading, "softmaxes": softmaxes, **row}


def softened(predictive: Predictive) -> Predictive:
    """The same draws after another softmax, as the authors' loss reads them."""
    return Predictive(Categorical(), StoredDraws(predictive.draws.softmax(-1)))


def measured(predictive: Predictive, labels: Tensor, resamples: int) -> Iterator[Measurement]:
    """Scores, calibration errors, and the bins behind them."""
    curve = metrics.reliability(predictive, labels)
    claimed, predicted = predictive.mean.max(-1)
    excess = claimed.double() - (predicted == labels).double()  # (B,)
    yield {"metric": "accuracy", "value": float(metrics.accuracy(predictive, labels))}
    yield {"metric": "nll", "value": float(metrics.nll(predictive, labels))}
    yield {"metric": "brier", "value": float(metrics.brier(predictive, labels))}
    yield {"metric": "ace", "value": float(metrics.ace(predictive, labels))}
    yield {
        "metric": "ece",
        "value": float(curve.expected_error),
        "error": bootstrap_error(predictive.mean, labels, resamples),
        "cases": len(labels),
    }
    yield {
        "metric": "overconfidence",
        "value": float(excess.mean()),
        "error": float(excess.std() / len(excess) ** 0.5),
    }
    for number, (confidence, accuracy, cases) in enumerate(
        zip(*(part.tolist() for part in curve), strict=True)
    ):
        yield {
            "metric": "reliability",
            "bin": number,
            "confidence": confidence if cases else None,
            "value": accuracy if cases else None,
            "cases": int(cases),
        }


def bootstrap_error(probabilities: Tensor, labels: Tensor, resamples: int) -> float:
    """The standard error of ECE from the choice of images: (B, K), (B,) -> its deviation."""
    count = len(labels)

    def resampled() -> float:
        rows = torch.randint(count, (count,))
        return float(metrics.ece(probabilities[rows], labels[rows]))

    return stdev(resampled() for _ in range(resamples))


COMPUTATION = Computation(
    protocol="Networks with two hidden layers are trained on MNIST: by maximum likelihood, with "
    "dropout, and with Bayes by Backprop with a Gaussian and a mixture prior; a variant "
    "called cold gives the KL less weight, and one is trained by the authors' protocol, as in "
    "clark2022/kl-terms. All test images are put into 15 bins of equal "
    "width by the probability of the most likely class, and its mean is compared with the "
    "accuracy. Dropout predicts in two ways: one pass without noise, which is standard, and "
    "an average over draws. An earlier version of the authors' code has a softmax in the "
    "network and another in the loss; networks trained this way are a separate variant.",
    scales={
        "smoke": Config(**SMOKE, width=16, resamples=5),
        "small": Config(**SMALL, width=400),
        "paper": Config(**PAPER),
    },
    pieces=pieces,
    run=run,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "The paper does not say whether it bins the probabilities of all classes or only the "
        "largest, nor how many bins it uses. We use the largest and 15 bins.",
        "We use all test images; the earlier version of the authors' code leaves out the "
        "last incomplete batch.",
    ),
)
