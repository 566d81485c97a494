"""Sources of the batch axis at the sites of a pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from dubio.noise.layout import Placement

# The shape of the tensor at each site, and where rows are in it
SitePlacements: TypeAlias = Sequence[tuple[torch.Size, Placement]]


class RowPlaces(Protocol):
    """What is known of the batch."""

    @property
    def rows(self) -> int:
        """How many rows it has."""
        ...

    def at(self, site: int, x: Tensor) -> Placement:
        """Return where rows are in the tensor that noise acts on at a site."""
        ...


@dataclass(frozen=True)
class KnownRows:
    """What another pass over the batch has shown.

    Attributes:
        rows: How many rows there are.
        places: The shape of the tensor at each site, and where rows are in it.
    """

    rows: int
    places: SitePlacements = ()

    def at(self, site: int, x: Tensor) -> Placement:
        """Return where rows are in the tensor at a site.

        Raises:
            OtherSiteError: If the other pass has not been there.
        """
        if site >= len(self.places) or self.places[site][0] != x.shape:
            raise OtherSiteError(f"site {site} has shape {tuple(x.shape)} in this pass only")
        return self.places[site][1]


class OtherSiteError(Exception):
    """A pass reaches sites that the one that followed the rows has not reached."""
