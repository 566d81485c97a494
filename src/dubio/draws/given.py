"""Noise as tensors: what a prediction draws, noted by name, and given back in place of a seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias, final

import torch
from torch import Tensor

from dubio.noise.numbers import Numbers
from dubio.noise.sites import Sites

NoiseIndex: TypeAlias = tuple[int, ...]  # the site, and which of its noises if there are several


@final
@dataclass(frozen=True)
class NotedNumbers(Numbers):
    """Random numbers that are written down.

    Attributes:
        noted: The numbers of every draw, by place.
    """

    noted: dict[NoiseIndex, dict[int, Tensor]] = field(default_factory=dict)

    def stream(self, site: NoiseIndex) -> None:
        """There is none: numbers are drawn to be noted."""

    def bernoulli(
        self, site: NoiseIndex, keep: float, shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Return zeros and ones with ``P(1) = keep``."""
        return self._note(site, super().bernoulli(site, keep, shape, like))

    def uniform(self, site: NoiseIndex, shape: torch.Size, like: Tensor) -> Tensor:
        """Return uniform numbers in [0, 1)."""  # (S, *shape)
        return self._note(site, super().uniform(site, shape, like))

    def normal(self, site: NoiseIndex, shape: torch.Size, like: Tensor) -> Tensor:
        """Return standard normal numbers."""  # (S, *shape)
        return self._note(site, super().normal(site, shape, like))

    def seeds(self, *site: int) -> list[int]:
        """There is nothing to note."""
        _refuse_own_randomness()

    def _note(self, site: NoiseIndex, numbers: Tensor) -> Tensor:
        rows = self.noted.setdefault(site, {})
        rows.update(zip(self.indices, numbers.clone().unbind(), strict=True))
        return numbers


@final
@dataclass(frozen=True)
class GivenNumbers(Numbers):
    """Random numbers that were drawn before.

    Attributes:
        given: Those of all draws, by place.
    """

    given: Mapping[NoiseIndex, Tensor] = field(default_factory=dict)

    def stream(self, site: NoiseIndex) -> None:
        """There is none: numbers are given."""

    def bernoulli(
        self, site: NoiseIndex, keep: float, shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Return zeros and ones."""
        return self._take(site)

    def uniform(self, site: NoiseIndex, shape: torch.Size, like: Tensor) -> Tensor:
        """Return uniform numbers in [0, 1)."""  # (S, *shape)
        return self._take(site)

    def normal(self, site: NoiseIndex, shape: torch.Size, like: Tensor) -> Tensor:
        """Return standard normal numbers."""  # (S, *shape)
        return self._take(site)

    def seeds(self, *site: int) -> list[int]:
        """There are none."""
        _refuse_own_randomness()

    def _take(self, site: NoiseIndex) -> Tensor:
        return self.given[site][self.indices.start : self.indices.stop].clone()


class UngivableError(ValueError):
    """The noise of a network cannot be written down."""


def _refuse_own_randomness() -> NoReturn:
    raise UngivableError(
        "noise: expected a network whose noise comes from dropout or from dubio's own layers, got "
        "one that draws random numbers itself; use a generator, or dubio.register the module"
    )


def named(
    noted: Mapping[NoiseIndex, Mapping[int, Tensor]], sites: Sites, draws: int
) -> dict[str, NoiseIndex]:
    """Return the names of places: that of the site, with [1], [2], … for its further noises."""
    names: dict[str, NoiseIndex] = {}
    for place in sorted(noted):
        if len(noted[place]) != draws:
            raise UngivableError(
                f"noise: expected the same noise in all {draws} draws, got {sites[place[0]].name} "
                f"in {len(noted[place])} of them; use a generator"
            )
        name = sites[place[0]].name
        repeat = sum(other[0] == place[0] for other in names.values())
        names[f"{name}[{repeat}]" if repeat else name] = place
    return names


def check_given(
    given: Mapping[str, Tensor], expected: Mapping[str, Tensor], names: Mapping[str, NoiseIndex]
) -> dict[NoiseIndex, Tensor]:
    """Return the given noise by place, if it is such as is expected."""
    if set(given) != set(expected):
        raise ValueError(
            f"noise: expected tensors for {', '.join(map(repr, expected))}, got "
            f"{', '.join(map(repr, given)) or 'none'}; take predictor.noise(x) and change that"
        )
    for name, like in expected.items():
        tensor = given[name]
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"noise[{name!r}]: expected a tensor, got {type(tensor).__name__}; take "
                f"predictor.noise(x) and change that"
            )
        if (tensor.shape, tensor.dtype, tensor.device) != (like.shape, like.dtype, like.device):
            raise ValueError(
                f"noise[{name!r}]: expected shape {tuple(like.shape)}, {like.dtype}, on "
                f"{like.device}, got {tuple(tensor.shape)}, {tensor.dtype}, on {tensor.device}; "
                f"take predictor.noise(x) for this x and change that"
            )
    return {place: given[name] for name, place in names.items()}
