"""Maps of predictions as rows: small, with a letter a pixel; photographs come from the data."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dubio.data.inventory import DATASETS
from dubio.report.scenes import Scene
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Measurement
from dubio_studies.scenes.images import AVAILABLE, CLASSES, VOID, load

SHOWN = (40, 117, 200)
"""Test scenes whose maps are kept, by their place among all."""

STRIDE = 2  # every second pixel of every second row
LEVELS = 255  # of a map, from 0 to its largest value
LARGEST = {"entropy": math.log(len(CLASSES)), "information": math.log(2)}


def map_rows(
    place: int, probabilities: Tensor, information: Tensor | None
) -> Iterator[Measurement]:  # (K, H, W), (H, W)
    """The prediction of a scene, its entropy and mutual information, as bytes in hexadecimals."""
    maps = {
        "predicted": probabilities.argmax(0),
        "entropy": torch.special.entr(probabilities).sum(0),
    }
    if information is not None:
        maps["information"] = information
    for name, values in maps.items():
        if name in LARGEST:
            values = (values / LARGEST[name]).clamp(0, 1).mul(LEVELS).round()
        yield _row(name, place, values)


def photograph_rows() -> Iterator[Measurement]:
    """The scenes and their labels, if CamVid is here: they are not ours to store."""
    if DATASETS["camvid"].here() is None:  # pages are made without downloads
        return
    scenes = load("camvid", "test", AVAILABLE["test"])
    for place in SHOWN:
        yield _row("photograph", place, scenes.images[place].permute(1, 2, 0))
        yield _row("truth", place, scenes.labels[place])


def read_strips(rows: Rows) -> list[Scene]:
    """Scenes to be drawn, from rows of one prediction and from photographs that fit them."""
    strips = []
    for place in SHOWN:
        own = rows.where(place=place)
        found = {name: own.where(metric=name) for name in ("photograph", "truth", "predicted")}
        if not all(found.values()):
            continue
        photograph, truth, predicted = (_pixels(own, name) for name in found)
        if photograph.shape[:2] != predicted.shape:  # a run on scenes of another size
            continue
        information = own.where(metric="information")
        strips.append(
            Scene(
                image=photograph / 255,
                truth=truth,
                predicted=predicted,
                known=truth != VOID,
                entropy=_levels(own, "entropy"),
                mutual_information=_levels(own, "information") if information else None,
            )
        )
    return strips


def _row(name: str, place: int, values: Tensor) -> Measurement:
    """Rows and columns of a map, and a byte for every number."""
    small = values[::STRIDE, ::STRIDE]
    return {
        "metric": name, "place": place, "height": small.shape[0], "width": small.shape[1],
        "value": bytes(small.flatten().int().tolist()).hex(),
    }  # fmt: skip


def _pixels(rows: Rows, name: str) -> NDArray[Any]:
    row = rows.row(metric=name)
    values = np.frombuffer(bytes.fromhex(row["value"]), np.uint8)
    shape = (row["height"], row["width"], -1)
    pixels = values.reshape(shape)
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels


def _levels(rows: Rows, name: str) -> NDArray[Any]:
    return _pixels(rows, name) * (LARGEST[name] / LEVELS)
