"""Requests of modules for noise, and the answers."""

from typing import NamedTuple

import torch
from torch import Tensor

from dubio.noise.protocols import Distribution
from dubio.noise.undrawn import Undrawn, drawn


class Request(NamedTuple):
    """Noise that a module asks for.

    Attributes:
        distribution: What to draw.
        shape: Its shape for one draw, without sharing.
        rows: The axis of the batch; None for noise that all rows have in common.
        units: The axis of the units.
    """

    distribution: Distribution
    shape: torch.Size
    rows: int | None
    units: int


class OwnSite(NamedTuple):
    """The name of a module with its own noise, its requests and the answers.

    Attributes:
        name: Its name.
        requests: What it asked for.
        given: What it was given; nothing if it draws by itself.
        place: Then the site, and which of its noises it is.
    """

    name: str
    requests: tuple[Request, ...]
    given: tuple[Tensor | Undrawn, ...]
    place: tuple[int, int] | None = None

    @property
    def noises(self) -> tuple[Tensor, ...]:
        """What it was given, drawn."""
        return tuple(map(drawn, self.given))


def for_half(request: Request) -> Request:
    """Return the same request for half of the rows."""
    if request.rows is None:
        return request
    shape = list(request.shape)
    shape[request.rows] //= 2
    return request._replace(shape=torch.Size(shape))


def doubled(noise: Tensor | Undrawn, request: Request) -> Tensor | Undrawn:
    """Return the noise of half of the rows, for both halves."""
    rows = request.rows
    if rows is None or noise.shape[rows] == 1:
        return noise
    return noise.doubled(rows) if isinstance(noise, Undrawn) else torch.cat([noise, noise], rows)
