"""The methods on UCI regression: all splits of a table in one population."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, cast

import torch
from torch import Tensor, nn

import dubio
from dubio import metrics
from dubio.likelihoods import LearnedGaussian
from dubio.masks import Mask
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
FITTED = 1000  # training rows, at most, on which the fit is measured
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

    settings = [candidate for candidate in tried for _ in range(len(data))]
    of = list(range(len(data))) * len(tried)
    start = time.process_time()
    parts = (data.rest, data.train)  # to choose by, and to test
    objectives = [
        objective(method, shape, candidate, len(part[0]))
        for _ in range(restarts)
        for part in parts
        for candidate in settings
    ]
    train(objectives, data, [part[k] for part in parts for k in of] * restarts, steps)
    trained = time.process_time()
    networks = [cast(nn.Module, each.model) for each in objectives]

    def restarted(part: int, chosen: Iterable[int]) -> list[nn.Module]:
        return [
            networks[(len(parts) * restart + part) * len(of) + place]
            for restart in range(restarts)
            for place in chosen
        ]

    held_out = [data.validation[k] for k in of]
    first = restarted(0, range(len(of)))
    found = predictions(first, torch.ones(len(of)), data.x, held_out, passes, restarts)
    precisions, densities = tuned_precisions(found, data, held_out)
    best = densities.view(len(tried), -1).argmax(0).tolist()  # (S,)
    places = [candidate * len(data) + split for split, candidate in enumerate(best)]
    tuned = precisions[places]
    final = restarted(1, places)
    before = time.process_time()
    tested = predictions(final, tuned, data.x, data.test, passes, restarts)
    done = time.process_time()
    yield {"metric": "training", "value": steps, "cpu_seconds": trained - start}
    yield {"metric": "prediction", "value": restarts * passes, "cpu_seconds": done - before}
    elsewhere = data.x + SHIFT * torch.randn(data.x.shape)
    shifted = predictions(final, tuned, elsewhere, data.test, passes, restarts)
    seen = [rows[:FITTED] for rows in data.train]
    fitted = predictions(final, tuned, data.x, seen, passes, restarts)
    for split, (own, moved) in enumerate(zip(tested, shifted, strict=True)):
        yield from scores(split, own, data)
        fit = rmse(fitted[split], data, split, seen[split])
        yield {"split": split, "metric": "training rmse", "value": fit}
        yield from chosen(split, tried[best[split]], final[split])
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
    error = rmse(predictive, data, split, data.test[split])
    yield {"split": split, "metric": "rmse", "value": error}
    density = predictive.log_prob(y).mean()
    yield {"split": split, "metric": "nll", "value": math.log(scale) - float(density)}
    yield {"split": split, "metric": "calibration", "value": gap(predictive.cdf(y))}


def rmse(predictive: Predictive, data: Splits, split: int, rows: Tensor) -> float:
    """The error of the predictive mean on rows of a split, in the units of the table."""
    error = (predictive.mean - data.y[rows]).square().mean().sqrt()
    return float(data.scale[split]) * float(error)


def chosen(split: int, candidate: Candidate, trained: nn.Module) -> Iterator[Measurement]:
    """The prior that validation chose, and the dropout rate of each layer after training."""
    yield {"split": split, "metric": "length scale", "value": candidate.length_scale}
    for place, mask in enumerate(m for m in trained.modules() if isinstance(m, Mask)):
        rate = float(mask.drop.mean())
        yield {"split": split, "metric": "drop", "layer": place, "value": rate}


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
