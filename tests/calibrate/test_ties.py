"""Scores that tie: whatever has the score of the threshold is in, however numbers are rounded.

Nothing here is random but for its data: at least k of the n validation rows themselves have a score
up to the k-th smallest, and so must lie in their own intervals and sets.
"""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dubio.calibrate import (
    AdaptiveSets,
    LeastAmbiguousSets,
    QuantileIntervals,
    StandardisedIntervals,
)
from dubio.calibrate.conformal import conformal_rank
from dubio.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian
from dubio.likelihoods.point import Point
from dubio.likelihoods.quantiles import mixture_quantile
from dubio.predictive.predictive import Predictive, StoredDraws

ROWS, ALPHA = 400, 0.1
RANK = conformal_rank(ROWS, ALPHA)
IntervalsOf = type[StandardisedIntervals] | type[QuantileIntervals]
INTERVALS: list[IntervalsOf] = [StandardisedIntervals, QuantileIntervals]
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


Data = tuple[Tensor, Tensor, Tensor]  # mean, std, targets; each (ROWS, 1) in float64


def uniform(generator: torch.Generator) -> Tensor:
    return torch.rand(ROWS, 1, generator=generator, dtype=torch.float64)


def whole_numbers(generator: torch.Generator) -> Data:
    y = torch.randint(0, 6, (ROWS, 1), generator=generator).double()
    return torch.full_like(y, 2.3), torch.full_like(y, 0.7), y


def rounded_predictions(generator: torch.Generator) -> Data:
    mean = (100 * uniform(generator)).round() / 10
    steps = torch.randint(-2, 3, (ROWS, 1), generator=generator)
    return mean, torch.full_like(mean, 0.3), mean + 0.1 * steps


def two_deviations(generator: torch.Generator) -> Data:
    mean, std = uniform(generator), 0.1 + uniform(generator)
    return mean, std, mean + 2 * std * (uniform(generator) - 0.5).sign()


def exact(generator: torch.Generator) -> Data:
    mean = uniform(generator)
    return mean, 0.1 + uniform(generator), mean


CASES: list[Callable[[torch.Generator], Data]] = [
    whole_numbers,
    rounded_predictions,
    two_deviations,
    exact,
]


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("offset", [0.0, 100.0, 1e6, -1e6])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", INTERVALS)
def test_targets_at_the_ends_are_in(
    kind: IntervalsOf, case: Callable[[torch.Generator], Data], offset: float, scale: float
) -> None:
    mean, std, y = case(seeded())
    for of_p, of_y in itertools.product(FLOATS, FLOATS):
        if of_p.itemsize == 2 and (abs(offset) > 100 or scale != 1):
            continue  # beyond what half precision can tell apart
        m, s = (scale * (mean + offset)).to(of_p), (scale * std).to(of_p)
        targets = m.to(of_y) if case is exact else (scale * (y + offset)).to(of_y)
        if not bool(targets.isfinite().all()):
            continue
        fitted = kind(ALPHA).fit((m, s), targets)
        whole = fitted((m, s))
        assert int(whole.contains(targets).sum()) >= RANK
        assert bool((whole.widths >= 0).all())
        for rows in torch.randperm(ROWS, generator=seeded(1))[:20].split(7):
            found = fitted((m[rows], s[rows])).contains(targets[rows])
            assert bool((found >= whole.contains(targets)[rows]).all())


@pytest.mark.parametrize("kind", INTERVALS)
def test_rounding_outwards_costs_next_to_nothing(kind: IntervalsOf) -> None:
    generator = seeded()
    mean, std = uniform(generator), 0.1 + uniform(generator)
    y = mean + std * torch.randn(ROWS, 1, generator=generator, dtype=torch.float64)
    for scale in (1e-10, 1.0, 1e10):
        narrow = kind(ALPHA).fit((mean, std), y)((mean, std)).widths
        scaled = (scale * mean).float(), (scale * std).float()
        wide = kind(ALPHA).fit(scaled, scale * y)(scaled).widths.double() / scale
        torch.testing.assert_close(wide, narrow, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", INTERVALS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_ties_of_many_draws(kind: IntervalsOf, dtype: torch.dtype) -> None:
    """Means and quantiles over draws, of rows that come again in batches of other sizes."""
    generator = seeded()
    few = torch.randn(20, 8, 2, generator=generator).to(dtype)  # eight different rows
    which = torch.randint(8, (ROWS,), generator=generator)
    y = few.mean(0)[which] + torch.tensor([0.3, 0.1], dtype=dtype)
    for likelihood in (Gaussian(3.0), HeteroscedasticGaussian()):
        draws = few if isinstance(likelihood, Gaussian) else torch.cat([few, few.tanh()], -1)
        fitted = kind(ALPHA).fit(Predictive(likelihood, StoredDraws(draws[:, which])), y)
        for chunk_bytes in (1000, 2**22):
            for rows in torch.arange(ROWS).split(133):
                p = Predictive(likelihood, StoredDraws(draws[:, which[rows]], chunk_bytes))
                hits = fitted(p).contains(y[rows]).double().mean(0)
                assert float(hits.min()) >= 0.7  # whole groups of ties are in or out
        total = fitted(Predictive(likelihood, StoredDraws(draws[:, which]))).contains(y).sum(0)
        assert int(total.min()) >= RANK


def test_no_spread_at_all() -> None:
    """Intervals around points: low and high are one number."""
    generator = seeded()
    mean = uniform(generator).float()
    p = Predictive(Point(), StoredDraws(mean.expand(5, ROWS, 1)))
    for y in (mean.double(), mean.double() + 0.1, mean.double() - 1 / 3):
        found = QuantileIntervals(ALPHA).fit(p, y)(p)
        assert int(found.contains(y).sum()) >= RANK


def test_a_quantile_does_not_depend_on_other_rows() -> None:
    generator = seeded()
    mean = torch.randn(9, 40, 1, generator=generator) * 10 ** torch.linspace(-3, 3, 40)[:, None]
    std = 10 ** (2 * torch.randn(9, 40, 1, generator=generator))
    for level in (0.05, 0.5, 0.95):
        together = mixture_quantile(mean, std, level)
        alone = [mixture_quantile(mean[:, [k]], std[:, [k]], level) for k in range(40)]
        assert torch.equal(torch.cat(alone), together)


TIED: dict[str, Tensor] = {
    "uniform": torch.full((1, 3), 1 / 3),
    "steps": torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.2, 0.7]]),
    "thirds": torch.tensor([[1 / 3, 1 / 2, 1 / 6], [1 / 6, 1 / 3, 1 / 2], [1 / 2, 1 / 6, 1 / 3]]),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", TIED)
@pytest.mark.parametrize(
    "sets", [LeastAmbiguousSets(ALPHA), AdaptiveSets(ALPHA, randomised=False)], ids=["lac", "aps"]
)
def test_tied_probabilities(
    sets: LeastAmbiguousSets | AdaptiveSets, case: str, dtype: torch.dtype
) -> None:
    generator = seeded()
    few = TIED[case].to(dtype)
    which = torch.randint(len(few), (ROWS,), generator=generator)
    q = few[which]
    y = torch.multinomial(q.float(), 1, generator=generator).squeeze(-1)
    sets.fit(q, y)
    whole = sets(q)
    assert int(whole.contains(y).sum()) >= RANK
    for rows in torch.arange(ROWS).split(7):
        assert torch.equal(sets(q[rows]).members, whole.members[rows])


@pytest.mark.parametrize(
    "sets", [LeastAmbiguousSets(ALPHA), AdaptiveSets(ALPHA, randomised=False)], ids=["lac", "aps"]
)
@pytest.mark.parametrize("draws", [2, 30])
def test_ties_of_sets_over_draws_and_chunks(
    sets: LeastAmbiguousSets | AdaptiveSets, draws: int
) -> None:
    generator = seeded()
    few = torch.randn(draws, 6, 4, generator=generator)
    which = torch.randint(6, (ROWS,), generator=generator)
    y = torch.randint(4, (ROWS,), generator=generator)
    p = Predictive(Categorical(), StoredDraws(few[:, which]))
    whole = sets.fit(p, y)(p)
    assert int(whole.contains(y).sum()) >= RANK
    for chunk_bytes in (1, 64, 1000):
        order = torch.randperm(draws, generator=generator)  # which rounds otherwise
        for size in (1, 50):
            rows = torch.arange(ROWS)[:size]
            p = Predictive(Categorical(), StoredDraws(few[order][:, which[rows]], chunk_bytes))
            assert torch.equal(sets(p).members, whole.members[:size])


def test_yes_or_no() -> None:
    logits = torch.zeros(3, ROWS, 1)
    p = Predictive(Bernoulli(), StoredDraws(logits))
    y = (torch.arange(ROWS) % 2).float().unsqueeze(-1)
    assert bool(LeastAmbiguousSets(ALPHA).fit(p, y)(p).members.all())
