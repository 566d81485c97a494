"""Maps that are rows, as scenes to be drawn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dubio.report.scenes import Scene
from dubio_studies.framework.rows import Rows

NEEDED = ("photograph", "truth", "predicted")


def read_strips(rows: Rows, classes: int) -> list[Scene]:
    """Scenes of one prediction whose photographs are here and have its size.

    Args:
        rows: Of one prediction, and of photographs.
        classes: How many there are; larger labels are void.
    """
    strips = []
    for place in rows.where(metric="photograph").distinct("place"):
        own = rows.where(place=place)
        if not all(own.where(metric=name) for name in NEEDED):
            continue
        photograph, truth, predicted = (_pixels(own, name) for name in NEEDED)
        if photograph.shape[:2] != predicted.shape:  # a run on scenes of another size
            continue
        informed = bool(own.where(metric="information"))
        strips.append(
            Scene(
                image=photograph / 255,
                truth=truth,
                predicted=predicted,
                known=truth < classes,
                entropy=_levels(own, "entropy"),
                mutual_information=_levels(own, "information") if informed else None,
            )
        )
    return strips


def _pixels(rows: Rows, name: str) -> NDArray[Any]:  # (H, W) or (H, W, 3)
    row = rows.row(metric=name)
    values = np.frombuffer(bytes.fromhex(row["value"]), np.uint8)
    pixels = values.reshape(row["height"], row["width"], -1)
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels


def _levels(rows: Rows, name: str) -> NDArray[Any]:
    return _pixels(rows, name) * float(rows.row(metric=name)["unit"])
