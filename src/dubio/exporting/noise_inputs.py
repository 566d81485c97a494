"""The noises of a network as inputs of a graph: their names and distributions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, final

import torch
from torch import Tensor

from dubio.draws.given import NoiseIndex, named
from dubio.exporting.errors import ExportError
from dubio.noise.numbers import Numbers
from dubio.noise.protocols import Distribution, RandomNumbers
from dubio.noise.sites import Sites


@final
@dataclass(frozen=True)
class NoiseInput:
    """One noise of a network.

    Attributes:
        name: ``noise.`` and its name in `Predictor.noise`: that of the site, with ``[1]``, ``[2]``…
            for further noises there.
        kind: What is done at the site, such as ``dropout`` or ``Concrete``.
        distribution: ``bernoulli`` (zeros and ones), ``uniform`` on [0, 1) or ``normal``.
        keep: The probability of a one; None if it is not Bernoulli.
        shape: Its shape for one draw, where −k stands for k times the number of rows.
        dtype: Its type.
        place: The number of the site, and which of its noises it is if there are several.
    """

    name: str
    kind: str
    distribution: Distribution
    keep: float | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    place: NoiseIndex

    def shape_for(self, rows: int) -> torch.Size:
        """Return its shape for one draw of a batch."""
        return torch.Size([size if size >= 0 else -size * rows for size in self.shape])

    def drawn(self, numbers: RandomNumbers, rows: int) -> Tensor:  # (S, …)
        """Draw this noise for a number of rows."""
        shape, like = self.shape_for(rows), torch.empty(0, dtype=self.dtype)
        if self.distribution == "bernoulli":
            assert self.keep is not None
            return numbers.bernoulli(self.place, self.keep, shape, like)
        draw = numbers.uniform if self.distribution == "uniform" else numbers.normal
        return draw(self.place, shape, like)

    def card(self, draws: int) -> dict[str, Any]:
        """Return its metadata."""
        return {
            "name": self.name,
            "kind": self.kind,
            "distribution": self.distribution,
            "keep": self.keep,
            "shape": [draws, *self.shape],
            "dtype": str(self.dtype).removeprefix("torch."),
        }


class _Seen(NamedTuple):
    """A noise that a pass has asked for."""

    distribution: Distribution
    keep: float | None
    numbers: Tensor


@final
@dataclass(frozen=True)
class ObservedNumbers(Numbers):
    """Random numbers that record requests.

    Attributes:
        seen: What was asked for, by place.
    """

    seen: dict[NoiseIndex, _Seen] = field(default_factory=dict)

    def stream(self, site: NoiseIndex) -> None:
        """There is none: numbers are drawn to be noted."""

    def bernoulli(
        self, site: NoiseIndex, keep: float, shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Return zeros and ones with ``P(1) = keep``."""
        return self._note(site, "bernoulli", keep, super().bernoulli(site, keep, shape, like))

    def uniform(self, site: NoiseIndex, shape: torch.Size, like: Tensor) -> Tensor:
        """Return uniform numbers in [0, 1)."""  # (S, *shape)
        return self._note(site, "uniform", None, super().uniform(site, shape, like))

    def normal(self, site: NoiseIndex, shape: torch.Size, like: Tensor) -> Tensor:
        """Return standard normal numbers."""  # (S, *shape)
        return self._note(site, "normal", None, super().normal(site, shape, like))

    def seeds(self, *site: int) -> NoReturn:
        """For random numbers that others draw, which have no name."""
        raise ExportError(
            "model: expected noise from dropout or from dubio's own layers, got a network that "
            "draws random numbers itself (torch.rand, torch.bernoulli, …), which a graph would not "
            "have as an input; dubio.register the module that does, or use dubio's masks"
        )

    def _note(
        self, site: NoiseIndex, distribution: Distribution, keep: float | None, numbers: Tensor
    ) -> Tensor:
        self.seen[site] = _Seen(distribution, keep, numbers.clone())
        return numbers


def noise_inputs(
    fewer: Mapping[NoiseIndex, _Seen], more: Mapping[NoiseIndex, _Seen], rows: int, sites: Sites
) -> list[NoiseInput]:
    """Return the noises that two passes have asked for: over some rows, and over one row more."""
    names = named({place: {0: seen.numbers} for place, seen in fewer.items()}, sites, draws=1)
    found = []
    for name, place in names.items():
        site, seen = sites[place[0]], fewer[place]
        shapes = [tuple(s[place].numbers.shape[1:]) if place in s else () for s in (fewer, more)]
        shape = _by_rows(shapes[0], shapes[1], rows)
        if shape is None:
            raise ExportError(
                f"model: expected noise whose shape is the same for any batch or grows with its "
                f"rows, got {shapes[0]} for {rows} rows and {shapes[1]} for {rows + 1} at site "
                f"{site.name!r}; pad sequences to one length instead of packing them"
            )
        distribution, keep, numbers = seen
        found.append(
            NoiseInput(f"noise.{name}", site.kind, distribution, keep, shape, numbers.dtype, place)
        )
    return found


def _by_rows(fewer: tuple[int, ...], more: tuple[int, ...], rows: int) -> tuple[int, ...] | None:
    """Return a shape with −k for k times the number of rows, from two; None if there is no such."""
    if len(fewer) != len(more):
        return None
    shape = []
    for size, next_size in zip(fewer, more, strict=True):
        each = next_size - size
        if each and size != each * rows:
            return None
        shape.append(-each if each else size)
    return tuple(shape)
