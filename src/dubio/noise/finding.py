"""Find the rows of the batch at every site of a network, before any noise is drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dubio.noise.layout import Placement
from dubio.noise.placing import KnownRows, OtherSiteError, RowPlaces, SitePlacements
from dubio.noise.sites import Sites
from dubio.noise.tracking import Operated, RowTracker


class Watched(Protocol):
    """A pass without noise."""

    @property
    def sites(self) -> Sites:
        """The sites that it has reached."""
        ...

    @property
    def places(self) -> SitePlacements:
        """Where rows were there."""
        ...


# Runs a network without noise on all rows, or on those with some indices, knowing where rows are.
Watch = Callable[[Tensor | None, RowPlaces], Watched]


@dataclass(frozen=True)
class FewRows:
    """What a pass over few rows has shown of where all rows are.

    Attributes:
        rows: How many rows there are.
        few: How many there were.
        places: The shape of the tensor at each site, and where those few were.
    """

    rows: int
    few: int
    places: SitePlacements

    def at(self, site: int, x: Tensor) -> Placement:
        """Return where rows are in the tensor at a site.

        Raises:
            OtherSiteError: If the tensor does not have the shape that follows from that pass.
        """
        if site < len(self.places):
            shape, place = self.places[site]
            stretched = place.stretched(self.few, self.rows)
            expected = list(shape)
            if place.axis is not None:
                expected[place.axis] = place.part * self.rows
            if stretched is not None and expected == list(x.shape):
                return stretched
        raise OtherSiteError(f"site {site} has shape {tuple(x.shape)}")


def find_rows(watch: Watch, batch: Sequence[Tensor], rows: int) -> RowPlaces:
    """Return where rows are at all sites, from a pass over few of them if that tells enough.

    It does not if shapes depend on which rows are there, or if the batch size is fixed.
    """
    few = min(2, rows)
    try:
        places = _follow(watch, batch, torch.arange(few))
    except Exception:
        return follow_rows(watch, batch, rows)
    if any(place.grows for _, place in places):
        return follow_rows(watch, batch, rows)
    return FewRows(rows, few, places)


def follow_rows(watch: Watch, batch: Sequence[Tensor], rows: int) -> KnownRows:
    """Return where rows are at all sites, followed through a pass over all of them."""
    return KnownRows(rows, _follow(watch, batch, torch.arange(rows)))


def _follow(watch: Watch, batch: Sequence[Tensor], order: Tensor) -> SitePlacements:
    """Follow rows from the inputs on.

    A tensor that is not computed from the inputs may be made to have as many rows: ``ones`` of the
    batch size for a mask, or a learned query that is expanded. It is known by an axis that is twice
    as long if the network runs on all rows twice; from there on its rows are followed as well.
    """
    once = _tracker(batch, len(order))
    places = watch(order, once).places
    if all(place.found for _, place in places):
        return places
    twice = _tracker(batch, 2 * len(order))
    try:
        longer = watch(order.repeat(2), twice).places
        made = _made_for_rows(once.operations, twice.operations, len(order))
        again = watch(order, _tracker(batch, len(order), made)).places
    except Exception:  # the batch size is fixed
        return places
    if not len(places) == len(longer) == len(again):
        return places
    return [
        (shape, place if place.found else Placement(grows=place.grows) if shape == other else known)
        for (shape, place), (other, _), (_, known) in zip(places, longer, again, strict=True)
    ]


def _tracker(
    batch: Sequence[Tensor], rows: int, made: Mapping[tuple[int, int], int] | None = None
) -> RowTracker:
    tracker = RowTracker(batch, made)
    tracker.rows = rows
    return tracker


def _made_for_rows(
    once: Sequence[Operated], twice: Sequence[Operated], rows: int
) -> dict[tuple[int, int], int]:
    """Return axes that have a row for each of the batch, by the numbers of operations and results.

    Args:
        once: The operations of a pass over so many rows, with the shapes of their results.
        twice: Those of a pass over twice as many.
        rows: How many.
    """
    if [function for function, _ in once] != [function for function, _ in twice]:
        return {}
    made: dict[tuple[int, int], int] = {}
    for number, ((_, here), (_, there)) in enumerate(zip(once, twice, strict=True)):
        for result, (shape, other) in enumerate(zip(here, there, strict=False)):
            if len(shape) != len(other):
                continue
            sizes = zip(shape, other, strict=True)
            longer = [(axis, pair) for axis, pair in enumerate(sizes) if pair[0] != pair[1]]
            if len(longer) == 1 and longer[0][1] == (rows, 2 * rows):
                made[number, result] = longer[0][0]
    return made
