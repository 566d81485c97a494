"""Noise drawn outside of a pass: its requests, and prepared answers.

Inside `torch.vmap` a network cannot draw numbers from the generators of many members. So one pass
is watched for what it asks, the numbers are drawn outside, and every further pass is given them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import torch
from torch import Tensor

from dubio.noise.numbers import Numbers

Continuous: TypeAlias = Literal["uniform", "normal"]
NoisePlace: TypeAlias = tuple[int, ...]  # which Noise of a pass, which draw, which site
# (place, distribution, shape of one draw, tensor of the dtype that is wanted) -> numbers
NumberSource: TypeAlias = Callable[[NoisePlace, Continuous, torch.Size, Tensor], Tensor]


@final
@dataclass(frozen=True)
class SourcedNumbers(Numbers):
    """Random numbers that come from a source, and not from a seed."""

    source: NumberSource

    def stream(self, site: tuple[int, ...]) -> None:
        """There is none: numbers come from the source."""

    def bernoulli(
        self, site: tuple[int, ...], keep: float, shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Return zeros and ones: 1[u < keep]. The rate may be that of one of many members."""
        return (self.uniform(site, shape, like) < keep).to(like.dtype)

    def uniform(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Return uniform numbers in [0, 1)."""  # (S, *shape)
        return self._ask("uniform", site, shape, like)

    def normal(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Return standard normal numbers."""  # (S, *shape)
        return self._ask("normal", site, shape, like)

    def seeds(self, *site: int) -> list[int]:
        """There are none."""
        raise NotImplementedError(
            "expected noise from dropout and from dubio's own layers and estimators 'trapezoid' "
            "and 'trapezoid_once', got a network that draws other random numbers; train such "
            "networks one by one, with dubio.fit"
        )

    def _ask(
        self, distribution: Continuous, site: tuple[int, ...], shape: torch.Size, like: Tensor
    ) -> Tensor:
        answers = [
            self.source((self.seed, draw, *site), distribution, shape, like)
            for draw in self.indices
        ]
        return answers[0][None] if len(answers) == 1 else torch.stack(answers)


@final
class Origin:
    """Makes the numbers of each new `dubio.Noise` of a pass, all from one source."""

    def __init__(self, source: NumberSource) -> None:
        self._source = source
        self._made = 0

    def __call__(self, draws: range, shared: bool) -> SourcedNumbers:
        """Return the numbers of some draws."""
        self._made += 1
        return SourcedNumbers(self._made - 1, draws, shared, self._source)


@final
@dataclass(frozen=True)
class NoiseRequest:
    """Numbers that a pass needs at one place."""

    place: NoisePlace
    distribution: Continuous
    shape: torch.Size


@final
class NoiseRequests:
    """All that a pass needs, in its order: found by watching one."""

    def __init__(self) -> None:
        self._known: dict[NoisePlace, NoiseRequest] = {}

    def note(
        self, place: NoisePlace, distribution: Continuous, shape: torch.Size, like: Tensor
    ) -> Tensor:
        """Return a source that takes notes, and gives a half everywhere."""
        self._known.setdefault(place, NoiseRequest(place, distribution, shape))
        return like.new_full(shape, 0.5)

    def sizes(self) -> dict[Continuous, int]:
        """Return how many numbers of each distribution one pass needs."""
        sizes: dict[Continuous, int] = {}
        for r in self._known.values():
            sizes[r.distribution] = sizes.get(r.distribution, 0) + r.shape.numel()
        return sizes

    def __len__(self) -> int:
        return len(self._known)

    def split(self, numbers: dict[Continuous, Tensor]) -> dict[NoisePlace, Tensor]:
        """Cut what lies in one row, (…, n), into the places: (…, *shape)."""
        parts = {}
        for distribution, rows in numbers.items():
            requests = [r for r in self._known.values() if r.distribution == distribution]
            cut = rows.split([request.shape.numel() for request in requests], dim=-1)
            for request, part in zip(requests, cut, strict=True):
                parts[request.place] = part.unflatten(-1, request.shape)
        return parts


def answers(given: dict[NoisePlace, Tensor]) -> NumberSource:
    """Return a source of numbers that were drawn beforehand."""

    def answer(
        place: NoisePlace, distribution: Continuous, shape: torch.Size, like: Tensor
    ) -> Tensor:
        found = given.get(place)
        if found is None or found.shape != shape:
            got = None if found is None else tuple(found.shape)
            raise RuntimeError(
                f"noise: expected every pass to need the same numbers, got one of shape "
                f"{tuple(shape)} where there is {got}; if the network's computation "
                f"depends on its data, train it with dubio.fit"
            )
        return found.to(like.dtype)

    return answer
