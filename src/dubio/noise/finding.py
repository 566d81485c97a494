"""Find the rows of the batch at every site of a network, before any noise is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dubio.noise.layout import Placement, grown
from dubio.noise.placing import KnownRows, OtherSiteError, Places, RowPlaces
from dubio.noise.sites import Sites
from dubio.noise.tracking import RowTracker


class Watched(Protocol):
    """A pass without noise."""

    @property
    def sites(self) -> Sites:
        """The sites that it has reached."""
        ...

    @property
    def places(self) -> Places:
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
    places: Places

    def at(self, site: int, x: Tensor) -> Placement:
        """Where rows are in the tensor at a site.

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
    """Where rows are at all sites, from a pass over few of them if that tells enough.

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
    """Where rows are at all sites, followed through a pass over all of them."""
    return KnownRows(rows, _follow(watch, batch, torch.arange(rows)))


def _follow(watch: Watch, batch: Sequence[Tensor], order: Tensor) -> Places:
    """Follow rows from the inputs on.

    A tensor that is not computed from the inputs may be made to have as many rows: ``ones`` of the
    batch size, for a mask. It is known by its shape, if the network also runs on all rows twice.
    """
    rows, tracker = len(order), RowTracker(batch)
    tracker.rows = rows
    places = watch(order, tracker).places
    if all(place.found for _, place in places):
        return places
    try:
        twice = watch(order.repeat(2), KnownRows(2 * rows)).sites
    except Exception:  # the batch size is fixed
        return places
    if len(twice) != len(places):
        return places
    return [
        (shape, place if place.found else grown(place, shape, site.shape, rows))
        for (shape, place), site in zip(places, twice, strict=True)
    ]
