"""A score of every class, such as its IoU, and the mean: numbers in, a table out."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import SupportsFloat

from dubio.report.exhibits import Table


def class_table(
    scores: Mapping[str, Iterable[SupportsFloat]],
    classes: Sequence[str],
    *,
    title: str = "IoU of every class, %",
) -> Table:
    """Return a row for every class and the mean as the last one, a column for every method.

    Scores are shares, shown in percent, and the best of every row is bold. A class that occurs
    nowhere has NaN, shown as a dash; it is left out of the mean, as in `dubio.metrics.mean_iou`.

    Args:
        scores: By method, one for each class, such as `dubio.metrics.ClassIoU` computes.
        classes: What they are called.
        title: Of the table.
    """
    if not scores:
        raise ValueError("scores: expected one method or more, got none; pass {name: scores}")
    columns = {name: [float(score) for score in own] for name, own in scores.items()}
    for name, own in columns.items():
        _check(name, own, classes)
        own.append(_mean(own))
    rows = [
        [name, *_cells([own[place] for own in columns.values()])]
        for place, name in enumerate((*classes, "mean"))
    ]
    return Table(title, ("class", *columns), rows)


def _check(name: str, own: Sequence[float], classes: Sequence[str]) -> None:
    if len(own) != len(classes):
        raise ValueError(
            f"scores: expected one for each of {len(classes)} classes, got {len(own)} of {name}; "
            "pass all of them, with NaN for a class that occurs nowhere"
        )
    if wrong := [score for score in own if score < 0 or score > 1]:
        raise ValueError(
            f"scores: expected shares between 0 and 1, got {wrong[0]} of {name}; divide percents "
            "by 100"
        )


def _mean(own: Sequence[float]) -> float:
    known = [score for score in own if not math.isnan(score)]
    return fmean(known) if known else math.nan


def _cells(row: Sequence[float]) -> list[str]:
    shown = ["–" if math.isnan(score) else f"{100 * score:.1f}" for score in row]
    numbers = {text: float(text) for text in shown if text != "–"}
    if len(numbers) < 2:  # nothing to tell apart
        return shown
    best = max(numbers, key=numbers.__getitem__)
    return [f"**{text}**" if text == best else text for text in shown]
