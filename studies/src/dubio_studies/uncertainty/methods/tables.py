"""The methods on UCI regression: all splits of a table in one population."""

import math
import time
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, cast

import torch
from torch import Tensor, nn

import dubio
from dubio import metrics
from dubio.likelihoods import LearnedGaussian
from dubio.predictive.predictive import Predictive
from dubio_studies.framework.study import Measurement
from dubio_studies.uci.penalised import PRIOR, Penalised
from dubio_studies.uci.splits import Splits, predictions, train, tuned_precisions
from dubio_studies.uncertainty.methods.networks import (
    QUIET,
    Candidate,
    Method,
    candidates,
    network,
)

SHIFT = 2.0  # deviations of the noise that is added to standardised features
LEVELS = tuple(level / 10 for level in range(1, 10))  # of central intervals


def on_table(
    method: Method, name: str, *, splits: int, hidden: int, steps: int, draws: int, members: int
) -> Iterator[Measurement]:
    """Scores of a method on every split of a table, and what it cost."""
    data = Splits.of(name, splits)
    if method == "linear":
        yield from closed_form(data)
        return
    shape = (data.features, hidden, 1)
    tried = candidates(method)
    restarts = members if method == "ensemble" else 1
    passes = 1 if method in QUIET else draws

    def learned(chosen: Sequence[Candidate], rows: Sequence[Tensor]) -> list[nn.Module]:
        objectives = [
            objective(method, shape, candidate, len(rows[0]))
            for _ in range(restarts)
            for candidate in chosen
        ]
        train(objectives, data, list(rows) * restarts, steps)
        return [cast(nn.Module, each.model) for each in objectives]

    of = list(range(len(data))) * len(tried)
    first = learned([c for c in tried for _ in range(len(data))], [data.rest[k] for k in of])
    held_out = [data.validation[k] for k in of]
    found = predictions(first, torch.ones(len(of)), data.x, held_out, passes, restarts)
    precisions, densities = tuned_precisions(found, data, held_out)
    best = densities.view(len(tried), -1).argmax(0)  # (S,)
    tuned = precisions.view(len(tried), -1)[best, torch.arange(len(data))]
    start = time.process_time()
    final = learned([tried[k] for k in best.tolist()], data.train)
    trained = time.process_time()
    tested = predictions(final, tuned, data.x, data.test, passes, restarts)
    done = time.process_time()
    yield {"metric": "training", "value": steps, "cpu_seconds": trained - start}
    yield {"metric": "prediction", "value": restarts * passes, "cpu_seconds": done - trained}
    elsewhere = data.x + SHIFT * torch.randn(data.x.shape)
    shifted = predictions(final, tuned, elsewhere, data.test, passes, restarts)
    for split, (own, moved) in enumerate(zip(tested, shifted, strict=True)):
        yield from scores(split, own, data)
        detector = metrics.OutOfDistribution()
        detector.update(own.epistemic[:, 0], outside=False)
        detector.update(moved.epistemic[:, 0], outside=True)
        yield {"split": split, "metric": "auroc", "value": float(detector.compute().auroc)}


def objective(
    method: Method, shape: Sequence[int], candidate: Candidate, num_data: int
) -> nn.Module:
    """A network and its loss; the noise precision is learned."""
    made = network(method, shape, candidate)
    if method in QUIET:
        return Penalised(made, candidate.length_scale, num_data)
    return dubio.ELBO(made, LearnedGaussian(prior=PRIOR), num_data=num_data)


def scores(split: int, predictive: Predictive, data: Splits) -> Iterator[Measurement]:
    """Error and negative log-likelihood in the units of the table, and calibration."""
    y, scale = data.y[data.test[split]], float(data.scale[split])
    error = (predictive.mean - y).square().mean().sqrt()
    yield {"split": split, "metric": "rmse", "value": scale * float(error)}
    density = predictive.log_prob(y).mean()
    yield {"split": split, "metric": "nll", "value": math.log(scale) - float(density)}
    yield {"split": split, "metric": "calibration", "value": gap(predictive.cdf(y))}


def gap(places: Tensor) -> float:
    """The mean, over levels, of how far the share of targets in central intervals is from it.

    Args:
        places: The predictive probability below each target.
    """
    distance = (places - 0.5).abs() * 2
    return fmean(abs(float((distance <= level).double().mean()) - level) for level in LEVELS)


def closed_form(data: Splits) -> Iterator[Measurement]:
    """Dropout regression, linear in the features, with rate and prior by its evidence."""
    fitted, predicted = 0.0, 0.0
    found: list[Measurement] = []
    for split, (rows, test) in enumerate(zip(data.train, data.test, strict=True)):
        x, y = data.x.numpy(), data.y[:, 0].numpy()
        start = time.process_time()
        model = dubio.BayesianDropoutRegression("evidence", "evidence").fit(x[rows], y[rows])
        middle = time.process_time()
        predictive: Any = model.predictive(x[test])
        predicted += time.process_time() - middle
        fitted += middle - start
        scale = float(data.scale[split])
        error = ((predictive.mean - y[test]) ** 2).mean() ** 0.5
        nll = math.log(scale) - float(predictive.log_prob(y[test]).mean())
        found += [
            {"split": split, "metric": "rmse", "value": scale * float(error)},
            {"split": split, "metric": "nll", "value": nll},
        ]
    yield {"metric": "training", "value": 1, "cpu_seconds": fitted}
    yield {"metric": "prediction", "value": 1, "cpu_seconds": predicted}
    yield from found
