"""Maps of predictions as rows: small, with a byte a pixel; photographs come from the data."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from dubio.data.inventory import DATASETS
from dubio_studies.framework.study import Measurement
from dubio_studies.scenes.images import AVAILABLE, CLASSES, COLOURS, load

SHOWN = (40, 200)
"""Test scenes whose maps are kept, by their place among all."""

STRIDE = 3  # every third pixel of every third row
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
            levels = (values / LARGEST[name]).clamp(0, 1).mul(LEVELS).round()
            yield {**_row(name, place, levels), "unit": LARGEST[name] / LEVELS}
        else:
            yield _row(name, place, values)


def photograph_rows() -> Iterator[Measurement]:
    """The scenes, their labels and colours of classes, if CamVid is here.

    Photographs are not ours to store.
    """
    if DATASETS["camvid"].here() is None:  # pages are made without downloads
        return
    scenes = load("camvid", "test", AVAILABLE["test"])
    for name, colour in zip(CLASSES, COLOURS, strict=True):
        yield {"metric": "colour", "class": name, "value": colour}
    for place in SHOWN:
        yield _row("photograph", place, scenes.images[place].permute(1, 2, 0))
        yield _row("truth", place, scenes.labels[place])


def _row(name: str, place: int, values: Tensor) -> Measurement:
    """Rows and columns of a map, and a byte for every number."""
    small = values[::STRIDE, ::STRIDE]
    return {
        "metric": name, "place": place, "height": small.shape[0], "width": small.shape[1],
        "value": bytes(small.flatten().int().tolist()).hex(),
    }  # fmt: skip
