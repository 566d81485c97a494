"""All that a fork yields, as rows: scores of test scenes, curves, rates and maps."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from dubio import metrics
from dubio.data.download import cache_directory
from dubio_studies.framework.recipe import digest
from dubio_studies.framework.store import write_whole
from dubio_studies.framework.study import Measurement, Piece, Seed
from dubio_studies.scenes.images import CLASSES, VOID, Labelled
from dubio_studies.scenes.maps import SHOWN, map_rows
from dubio_studies.scenes.names import BINS, TOP_BINS, Sampling
from dubio_studies.scenes.networks import Forks
from dubio_studies.scenes.prediction import Predict, drawn, passed_once, predictions
from dubio_studies.scenes.published_code import PublishedCode
from dubio_studies.scenes.training import TrainedScenes

REVISION = 1  # raise it when scores change: those in the cache then count no more

WINDOW = 2  # pixels of a patch's side (Boluki et al. 2020)
POINTS = 101  # thresholds of PAvgPU
STORED = 5  # every so many of these thresholds are kept as rows


def judged(config: Forks, piece: Piece, seed: Seed) -> list[Measurement]:
    """The rows of the fork that a piece names, computed now or before.

    The folder ``scores`` of the cache holds them, as several studies look at the same fork.
    """
    counts = config.validation_images, config.test_images, config.draws
    key = digest([REVISION, config.key(piece, seed), counts])
    file = cache_directory() / "scores" / f"{key[:16]}.json"
    if (stored := _read(file)) is not None:
        return stored
    generator = torch.Generator().manual_seed(int(key[:8], 16))
    trained = config.of(piece, seed)
    rows = [*rate_rows(trained)]
    predictors: dict[Sampling, Predict] = {"one pass": passed_once(trained.network)}
    if trained.rates.numel():
        predictors["draws"] = drawn(trained.network, config.draws, generator)
    for sampling, predict in predictors.items():
        found = scores(predict, config.scenes("val"), config.scenes("test"))
        rows += [{"sampling": sampling, **row} for row in found]
    write_whole(file, json.dumps(rows, allow_nan=False))
    return rows


def rate_rows(trained: TrainedScenes) -> Iterator[Measurement]:
    """Dropout rates by layer, at the start and after every epoch."""
    for epoch, rates in enumerate(trained.rates):
        for layer, rate in enumerate(rates):
            yield {"metric": "drop", "epoch": epoch, "layer": layer + 1, "value": float(rate)}


def scores(predict: Predict, validation: Labelled, test: Labelled) -> Iterator[Measurement]:
    """Scores of the test scenes; the validation scenes give the bounds of PAvgPU's thresholds."""
    bounds = entropy_bounds(predict, validation)
    numbers: dict[str, metrics.Metric] = {
        "accuracy": metrics.GlobalAccuracy(len(CLASSES), void=VOID),
        "mean IoU": metrics.MeanIoU(len(CLASSES), void=VOID),
        "IoU by image": metrics.ImageIoU(len(CLASSES), void=VOID),
        "nll": metrics.NLL(void=VOID),
        "ECE": metrics.ECE(bins=TOP_BINS, void=VOID),
        "calibration RMSE, weighted": metrics.CalibrationRMSE(bins=BINS, void=VOID),
        "calibration RMSE, unweighted": metrics.CalibrationRMSE(
            bins=BINS, weighted=False, void=VOID
        ),
    }
    by_class = metrics.ClassIoU(len(CLASSES), void=VOID)
    reliability = metrics.ClasswiseReliability(len(CLASSES), bins=BINS, void=VOID)
    detection = metrics.ErrorDetection(void=VOID)
    curve = metrics.PAvgPU(bounds=bounds, points=POINTS, window=WINDOW, void=VOID)
    ranked = metrics.PAvgPU(ranks=True, points=POINTS, window=WINDOW, void=VOID)
    theirs = PublishedCode(WINDOW)
    place = 0
    for predicted in predictions(predict, test):
        probabilities, labels = predicted.probabilities, predicted.labels
        for metric in (*numbers.values(), by_class, reliability, detection, curve, ranked, theirs):
            metric.update(probabilities, labels)
        for index in range(len(labels)):
            if place in SHOWN:
                information = predicted.information
                own = None if information is None else information[index]
                yield from map_rows(place, probabilities[index], own)
            place += 1
    for name, metric in numbers.items():
        yield {"metric": name, "value": float(metric.compute())}
    for name, share in zip(CLASSES, by_class.compute().tolist(), strict=True):
        if share == share:  # a class that is nowhere has none
            yield {"metric": "IoU", "class": name, "value": share}
    if (auroc := float(detection.compute().auroc)) == auroc:  # NaN if all is right, or all wrong
        yield {"metric": "error AUROC", "value": auroc}
    yield from curve_rows("PAvgPU", curve.compute())
    yield from curve_rows("rank PAvgPU", ranked.compute())
    yield from calibration_rows(reliability.compute().pooled())
    for name, value in theirs.compute().items():
        yield {"metric": name, "value": value}


def entropy_bounds(predict: Predict, scenes: Labelled) -> tuple[float, float]:
    """The smallest and the largest entropy of a patch."""
    kept = metrics.PAvgPU(points=2, window=WINDOW, void=VOID)
    for predicted in predictions(predict, scenes):
        kept.update(predicted.probabilities, predicted.labels)
    low, high = kept.compute().threshold.tolist()
    return low, high


def curve_rows(name: str, curve: metrics.PAvgPUCurve) -> Iterator[Measurement]:
    """The mean, and some points of the curve and its two parts."""
    yield {"metric": f"mean {name}", "value": float(curve.mean)}
    parts: dict[str, Tensor] = {
        name: curve.pavgpu,
        f"{name}: accurate if certain": curve.accurate_given_certain,
        f"{name}: uncertain if inaccurate": curve.uncertain_given_inaccurate,
    }
    for part, values in parts.items():
        for t, value in zip(curve.t[::STORED].tolist(), values[::STORED].tolist(), strict=True):
            if value == value:  # where nothing is certain, or inaccurate, there is none
                yield {"metric": part, "t": round(t, 4), "value": value}


def calibration_rows(curve: metrics.ReliabilityCurve) -> Iterator[Measurement]:
    """Bins of the probabilities of all classes and pixels: what was claimed, and what came true."""
    parts = zip(*(part.tolist() for part in curve), strict=True)
    for number, (confidence, frequency, cases) in enumerate(parts):
        if cases:
            yield {
                "metric": "frequency", "bin": number, "confidence": confidence,
                "value": frequency, "cases": int(cases),
            }  # fmt: skip


def _read(file: Path) -> list[Measurement] | None:
    """What is stored; None if there is nothing whole."""
    try:
        rows = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return rows if isinstance(rows, list) else None
