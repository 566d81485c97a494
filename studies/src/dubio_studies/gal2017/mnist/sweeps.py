"""Which networks of the run belong together, and how far their rates are apart."""

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from dubio_studies.framework.rows import Rows

NAMES = {
    "concrete": "Concrete",
    "bernoulli": "learnable Bernoulli",
    "mc": "MC dropout, fixed rates",
}
LEARNED = ("concrete", "bernoulli")
LAYERS = ("pixels", "hidden 1", "hidden 2", "hidden 3")


def most(rows: Rows) -> int:
    """The number of images outside the sweep over it."""
    return max(map(int, rows.distinct("size")))


def trained_once(rows: Rows) -> Rows:
    """All networks but those of the checks of convergence."""
    return rows.where(twice=None)


def swept_by_size(rows: Rows) -> Rows:
    """The networks that differ in the number of images."""
    fewer = rows.where(size=min(rows.distinct("size")))[0]
    return trained_once(rows).where(width=fewer["width"], length_scale=fewer["length_scale"])


def swept_by_width(rows: Rows) -> Rows:
    """The networks that differ in width."""
    return trained_once(rows).where(size=most(rows), length_scale=usual_length_scale(rows))


def swept_by_length_scale(rows: Rows) -> Rows:
    """The networks that differ in the length scale of the prior."""
    return trained_once(rows).where(size=most(rows), width=swept_by_size(rows)[0]["width"])


def usual_length_scale(rows: Rows) -> float:
    """That of the other sweeps: of the networks that were trained on fewer images."""
    return float(rows.where(size=min(rows.distinct("size")))[0]["length_scale"])


def drops(rows: Rows, method: str, by: str, layers: Iterable[int]) -> dict[Any, float]:
    """Rates against a field, means over layers, starts and restarts."""
    own = rows.where(method=method, metric="drop")
    return {
        key: fmean(value for k in layers for value in own.where(layer=k, **{by: key}).values())
        for key in sorted(own.distinct(by))
    }


def differences(rows: Rows, method: str) -> list[tuple[float, str]]:
    """How far apart starts end, layer by layer; means over restarts."""
    found = []
    for place, ends in by_layer(rows, method, "drop").items():
        by_start = [fmean(ends.where(start=start).values()) for start in ends.distinct("start")]
        found.append((max(by_start) - min(by_start), place))
    return found


def drifts(rows: Rows, method: str) -> list[tuple[float, str]]:
    """How far rates move in the last fifth of the steps, layer by layer; the furthest network."""
    ends = by_layer(rows, method, "drift")
    return [(max(map(abs, own.values())), place) for place, own in ends.items()]


def by_layer(rows: Rows, method: str, metric: str) -> dict[str, Rows]:
    """Networks with several starts, by layer, images and units in words."""
    usual = usual_length_scale(rows)
    own = trained_once(rows).where(method=method, metric=metric, length_scale=usual)
    return {
        f"{name}, {size:,} images, {width} units": own.where(size=size, width=width, layer=layer)
        for size in own.distinct("size")
        for width in own.where(size=size).distinct("width")
        for layer, name in enumerate(LAYERS)
    }


def checks(rows: Rows) -> dict[str, Rows]:
    """The networks that were trained twice, by images and units in words."""
    own = Rows([row for row in rows if row["twice"] is not None])
    return {
        f"{size:,} images, {width} units": own.where(size=size, width=width)
        for size in own.distinct("size")
        for width in own.where(size=size).distinct("width")
    }


def moved(checked: Rows, check: str) -> float:
    """The largest change of a rate by a second training; means over restarts."""
    own = checked.where(twice=check, metric="drop")
    first, second = (own.where(training=training) for training in (1, 2))
    return max(
        abs(fmean(second.where(layer=layer).values()) - fmean(first.where(layer=layer).values()))
        for layer in own.distinct("layer")
    )
