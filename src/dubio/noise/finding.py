"""Find the rows of the batch at every site of a network, before any noise is drawn."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dubio.noise.layout import Placement
from dubio.noise.run import KnownRows, Pass, RowPlaces
from dubio.noise.tracking import RowTracker


def find_rows(
    watch: Callable[[Tensor | None, RowPlaces], Pass], batch: Sequence[Tensor], rows: int
) -> KnownRows:
    """Where rows are at all sites: followed from the inputs on, through a pass without noise.

    A tensor that is not computed from the inputs may be made to have their number of rows: ``ones``
    of the batch size, for a mask. It is known by its shape, if the network also runs on all rows
    twice.

    Args:
        watch: Runs the network on all rows, or on those with some indices, knowing where rows are.
        batch: The inputs that have rows.
        rows: How many.
    """
    places = watch(None, RowTracker(batch)).places
    if not all(place.found for _, place in places):
        try:
            twice = watch(torch.arange(rows).repeat(2), KnownRows(2 * rows)).sites
        except Exception:  # the network has a fixed batch size
            return KnownRows(rows, places)
        if len(twice) == len(places):
            places = [
                (shape, place if place.found else _by_size(place, shape, site.shape, rows))
                for (shape, place), site in zip(places, twice, strict=True)
            ]
    return KnownRows(rows, places)


def _by_size(place: Placement, once: Sequence[int], twice: Sequence[int], rows: int) -> Placement:
    """Which axis grows with the batch."""
    if len(once) != len(twice):
        return place
    grown = [axis for axis, (a, b) in enumerate(zip(once, twice, strict=True)) if a != b]
    if not grown:
        return Placement(grows=place.grows)
    if len(grown) == 1 and once[grown[0]] == rows and twice[grown[0]] == 2 * rows:
        return Placement(grown[0], grows=place.grows)
    return place
