"""Gradients of random networks, by every estimator, against the enumeration of all masks.

No sampling: an estimator's gradient depends on which interval each uniform number is in, and is at
most linear in the number there. So its expectation is a sum over intervals, at their midpoints, and
agrees with the enumerated gradient up to rounding; there are no false alarms.

``DUBIO_FUZZ=5000 pytest tests/fuzz/test_gradients.py`` tries that many networks, and
``DUBIO_FUZZ_FROM`` says where to begin.
"""

import itertools
import os
import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from dubio.masks import LearnableBernoulli
from dubio.noise.modes import all_modules
from dubio.noise.numbers import Numbers
from dubio.objectives.elbo import ELBO
from dubio.objectives.estimators import ESTIMATORS
from dubio.objectives.kept import StateBeforeStep
from dubio.objectives.passes import Passes
from estimator_cases import CASES
from fuzz.gradient_programs import Case, make

FIRST = int(os.environ.get("DUBIO_FUZZ_FROM", 0))
COUNT = int(os.environ.get("DUBIO_FUZZ", 60))
MOST = 64  # evaluations of an estimator for a network
SHARE = 0.1  # of the units that ``corrected`` looks at


class Site(NamedTuple):
    """A mask, where its noise is asked for, rates of keeping by entry, and how many units."""

    mask: LearnableBernoulli
    name: tuple[int, ...]
    keep: Tensor
    units: int


class Given(Numbers):  # type: ignore[misc]
    """Uniform numbers that are given, by site."""

    numbers: dict[tuple[int, ...], Tensor]

    def uniform(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        numbers = self.__dict__["numbers"]
        if site not in numbers:
            numbers[site] = torch.full((1, *shape), 0.5, dtype=like.dtype)
        return numbers[site].clone()


def given(shared: bool) -> Given:
    numbers = Given(0, range(1), shared)
    numbers.__dict__["numbers"] = {}
    return numbers


class Enumeration:
    """A case, with all that is needed to run it under given noise."""

    def __init__(self, case: Case, *, shared: bool) -> None:
        self.case = case
        self.elbo = ELBO(
            case.net, case.likelihood, 1, kl_weight=0.0, select=case.select, shared=shared
        )
        self.elbo(case.x, case.y)  # so that it is known whether there is a trunk
        self.modules = all_modules([case.net])
        self.parameters = [*self.elbo.parameters()]
        self.buffers = [(module, dict(module._buffers)) for module in self.modules]
        self.kept = StateBeforeStep()
        self.numbers = given(shared)
        passes = self.passes()
        passes.first()
        names = list(self.numbers.__dict__["numbers"])
        self.sites = [
            Site(mask, name, self._keep(mask, passes).detach(), site.noises[0].shape[units])
            for (mask, site), name in zip(passes.sites.items(), names, strict=True)
            for units in [site.requests[0].units]
        ]
        self.layout = [site.keep.shape for site in self.sites]
        self.keep = torch.cat([site.keep.flatten() for site in self.sites])

    def _keep(self, mask: LearnableBernoulli, passes: Passes) -> Tensor:
        (request,), (noise,) = passes.sites[mask].requests, passes.sites[mask].noises
        return torch.sigmoid(mask.logit_along(noise, request.units)).expand(noise.shape)

    def passes(self) -> Passes:
        for module, buffers in self.buffers:
            module._buffers.update({name: x.clone() for name, x in buffers.items()})
        self.kept.note(self.modules)
        batch = self.elbo._batch(self.case.x, self.case.y, None, self.modules)
        return Passes(batch, self.numbers, self.elbo._meetings, self.kept)

    def put(self, noise: Tensor) -> None:
        """Let the next passes have this noise, of all sites in one row."""
        parts = noise.split([shape.numel() for shape in self.layout])
        for site, part, shape in zip(self.sites, parts, self.layout, strict=True):
            self.numbers.__dict__["numbers"][site.name] = part.view(1, *shape)

    def gradient(self, loss: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return [
            torch.zeros_like(parameter) if g is None else g
            for parameter, g in zip(self.parameters, found, strict=True)
        ]

    def exact(self, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
        """The gradient of Σ_z p(z)·ℓ(z), with masks done naively."""
        total = torch.zeros(())
        with monkeypatch.context() as patch:
            patch.setattr(LearnableBernoulli, "multiply", _naive)
            for bits in itertools.product([0.0, 1.0], repeat=len(self.keep)):
                z = torch.tensor(bits).double()
                self.put(torch.where(z > 0, self.keep / 2, (1 + self.keep) / 2))
                passes = self.passes()
                loss = passes.first().mean()
                keep = torch.cat([self._keep(mask, passes).flatten() for mask, *_ in self.sites])
                total = total + torch.where(z > 0, keep, 1 - keep).prod() * loss
        return self.gradient(total)

    def expected(self, estimator: str) -> list[Tensor]:
        """The expectation of an estimator."""
        total = [torch.zeros_like(parameter) for parameter in self.parameters]
        for p, noise, further in self.intervals(estimator):
            self.put(noise)
            passes = self.passes()
            _let_draw(passes, further)
            found = self.gradient(ESTIMATORS[estimator](passes))
            total = [a + p * b for a, b in zip(total, found, strict=True)]
        return total

    def counts(self, estimator: str) -> int:
        """How many evaluations that takes."""
        bits = len(self.keep)
        if estimator == "reinforce_loo":
            return int(4**bits)
        if estimator in ("trapezoid_once", "reinforce_mean"):
            return int(2**bits)
        more = 2 ** sum(site.units for site in self.sites) if estimator == "corrected" else 1
        return int((2 if self.case.fair else 3) ** bits * more)

    def intervals(self, estimator: str) -> Iterator[tuple[float, Tensor, list[Tensor]]]:
        """Probabilities, midpoints, and what else the estimator is to draw."""
        edges = [
            [0.0, k, 1.0] if estimator in ("trapezoid_once", "reinforce_mean", "reinforce_loo")
            else sorted({0.0, k, 1 - k, 1.0})
            for k in self.keep.tolist()
        ]  # fmt: skip
        parts = [list(itertools.pairwise(each)) for each in edges]
        further: list[list[tuple[float, float]]] = []
        sizes: list[int] = []
        if estimator == "reinforce_loo":
            further, sizes = parts, [shape.numel() for shape in self.layout]
        elif estimator == "corrected":
            sizes = [site.units for site in self.sites]
            further = [[(0.0, SHARE), (SHARE, 1.0)]] * sum(sizes)
        for chosen in itertools.product(*parts, *further):
            widths = torch.tensor([high - low for low, high in chosen], dtype=torch.float64)
            middles = torch.tensor([(low + high) / 2 for low, high in chosen], dtype=torch.float64)
            drawn = middles[len(parts) :]
            yield (
                widths.prod().item(),
                middles[: len(parts)],
                list(drawn.split(sizes)) if sizes else [],
            )


def _naive(self: LearnableBernoulli, xs: list[Tensor], axis: int, u: Tensor) -> list[Tensor]:
    """x·z/keep in plain torch."""
    keep = torch.sigmoid(self.logit_along(u, axis))
    return [x * ((u < keep).to(x.dtype) / keep) for x in xs]


def _let_draw(passes: Passes, numbers: list[Tensor]) -> None:
    """Let an estimator draw these numbers, in this order."""
    waiting = iter(numbers)
    passes.uniform = lambda shape, like: next(waiting).view(shape)  # type: ignore[method-assign]


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compare some estimators for a network; the names of those that are wrong, and by how much."""
    case, dice = make(seed), random.Random(seed)
    enumeration = Enumeration(case, shared=dice.random() < 0.2)
    affordable = [name for name in CASES if enumeration.counts(name) <= MOST]
    exact = enumeration.exact(monkeypatch)
    rates = {id(site.mask.logit) for site in enumeration.sites}
    wrong = []
    for name in dice.sample(affordable, 1):
        found = enumeration.expected(name)
        for parameter, one, other in zip(enumeration.parameters, found, exact, strict=True):
            if (id(parameter) in rates and not CASES[name].unbiased) or not other.isfinite().all():
                continue
            if not torch.allclose(one, other, rtol=1e-7, atol=1e-9):
                wrong.append(f"{name}: {one.tolist()} != {other.tolist()}; {case.text}")
    return wrong


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_gradients(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(seed, monkeypatch) == []
