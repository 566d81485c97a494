"""The methods on MNIST: digits to recognise, and clothes to be noticed."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

import dubio
from dubio import metrics
from dubio.likelihoods import Categorical
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio_studies.framework.study import Measurement
from dubio_studies.uncertainty.digits_vs_shift.images import Sets
from dubio_studies.uncertainty.methods.networks import QUIET, Candidate, Method, network

CLASSES = 10
SETTINGS = Candidate(length_scale=0.1, drop=0.2)


def on_digits(
    method: Method, sets: Sets, *, hidden: int, epochs: int, draws: int, members: int
) -> Iterator[Measurement]:
    """Scores of a method on digits, and what it cost."""
    shape = (sets.train.shape[1], hidden, hidden, CLASSES)
    networks = [network(method, shape, SETTINGS) for _ in range(members)]
    if method != "ensemble":
        networks = networks[:1]
    learn(network(method, shape, SETTINGS), sets, 1, rows=2)  # loads what every first one loads
    start = time.process_time()
    for each in networks:
        learn(each, sets, epochs, rows=len(sets.train))
        each.eval()
    trained = time.process_time()

    def predict(images: Tensor) -> Predictive:
        if method in QUIET:
            with torch.no_grad():
                outputs = torch.stack([each(images) for each in networks])
            return Predictive(Categorical(), StoredDraws(outputs))
        return dubio.predict(networks[0], images, draws=draws, likelihood=Categorical())

    tested = predict(sets.test)
    _ = tested.mutual_information
    done = time.process_time()
    yield {"metric": "training", "value": epochs, "cpu_seconds": trained - start}
    passes = len(networks) if method in QUIET else draws
    yield {"metric": "prediction", "value": passes, "cpu_seconds": done - trained}
    wrong = (tested.mean.argmax(-1) != sets.test_labels).double().mean()
    yield {"metric": "error", "value": float(wrong), "cases": len(sets.test)}
    yield {"metric": "nll", "value": float(metrics.nll(tested, sets.test_labels))}
    yield {"metric": "calibration", "value": float(metrics.ece(tested, sets.test_labels))}
    for name, images in sets.foreign.items():
        detector = metrics.OutOfDistribution()
        for shown, outside in ((tested, False), (predict(images), True)):
            doubt = shown.entropy if method == "plain" else shown.mutual_information
            detector.update(doubt, outside=outside)
        yield {"metric": "auroc", "foreign": name, "value": float(detector.compute().auroc)}


def learn(made: nn.Module, sets: Sets, epochs: int, rows: int) -> None:
    """Train a network on the first digits."""
    elbo = dubio.ELBO(made, Categorical(), num_data=rows)
    dubio.fit(elbo, (sets.train[:rows], sets.train_labels[:rows]), epochs=epochs, progress=False)
