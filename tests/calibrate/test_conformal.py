"""Conformal sets and intervals: coverage on repeated simulations, and their edges.

Without ties, coverage given n validation rows has the law Beta(k, n + 1 − k), and a new row is
covered with probability k / (n + 1) over both. Counts of independent rows are tested by an exact
binomial test at 1e-6, means of coverages by Bernstein's inequality at 1e-6: every test of this file
has at most that false-alarm rate.
"""

import math
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

from dubio.calibrate import (
    AdaptiveSets,
    LeastAmbiguousSets,
    QuantileIntervals,
    StandardisedIntervals,
)
from dubio.calibrate.conformal import conformal_rank
from dubio.likelihoods import Bernoulli, Categorical, Gaussian
from dubio.likelihoods.point import Point
from dubio.predictive.predictive import Predictive, StoredDraws

FALSE_ALARMS = 1e-6
Sets = type[LeastAmbiguousSets] | type[AdaptiveSets]
SETS: list[Sets] = [LeastAmbiguousSets, AdaptiveSets]
IntervalsOf = type[StandardisedIntervals] | type[QuantileIntervals]
INTERVALS: list[IntervalsOf] = [StandardisedIntervals, QuantileIntervals]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bernstein(variance: float, repeats: int) -> float:
    """How far the mean of independent numbers in [0, 1] strays, but for FALSE_ALARMS."""
    log = math.log(2 / FALSE_ALARMS)
    return log / (3 * repeats) + math.sqrt(
        (log / (3 * repeats)) ** 2 + 2 * log * variance / repeats
    )


def labelled(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Probabilities of a network that is far too bold, and labels."""
    logits = torch.randn(rows, 5, generator=generator, dtype=torch.float64)
    y = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(-1)
    return (3 * logits).softmax(-1), y


class TestRank:
    def test_against_fractions_by_hand(self) -> None:
        assert conformal_rank(99, 0.07) == 93  # 100 * (1 - 0.07) is above 93 in floats
        assert conformal_rank(9, 0.1) == 9
        assert conformal_rank(10, 0.1) == 10
        assert conformal_rank(19, 0.3) == 14
        assert conformal_rank(999_999, 1e-6) == 999_999

    @pytest.mark.parametrize(("alpha", "needed"), [(0.1, 9), (0.05, 19), (0.3, 3), (1e-6, 999_999)])
    def test_too_few_rows(self, alpha: float, needed: int) -> None:
        conformal_rank(needed, alpha)
        with pytest.raises(
            ValueError, match=f"at least {needed} validation rows.*got {needed - 1}"
        ):
            conformal_rank(needed - 1, alpha)


@pytest.mark.parametrize(("rows", "alpha"), [(19, 0.1), (40, 0.25)])
class TestCoverage:
    @pytest.mark.parametrize("kind", SETS)
    def test_sets(self, kind: Sets, rows: int, alpha: float) -> None:
        repeats, generator = 300, seeded(1)
        rank = conformal_rank(rows, alpha)
        law = scipy.stats.betabinom(100, rank, rows + 1 - rank)
        total = 0.0
        for _ in range(repeats):
            sets = kind(alpha).fit(*labelled(rows, generator), generator)
            q, y = labelled(100, generator)
            total += float(sets(q, generator).contains(y).double().mean())
        stray = bernstein(law.var() / 100**2, repeats)
        assert stray < 0.05
        assert abs(total / repeats - rank / (rows + 1)) < stray

    def test_sets_without_randomness_cover_at_least_as_often(self, rows: int, alpha: float) -> None:
        """Ties put coverage above the law without them."""
        repeats, generator = 300, seeded(2)
        rank = conformal_rank(rows, alpha)
        law = scipy.stats.betabinom(100, rank, rows + 1 - rank)
        total = 0.0
        for _ in range(repeats):
            sets = AdaptiveSets(alpha, randomised=False).fit(*labelled(rows, generator))
            q, y = labelled(100, generator)
            total += float(sets(q).contains(y).double().mean())
        assert total / repeats > rank / (rows + 1) - bernstein(law.var() / 100**2, repeats)

    @pytest.mark.parametrize("kind", INTERVALS)
    def test_intervals(self, kind: IntervalsOf, rows: int, alpha: float) -> None:
        """Every element of a target is a simulation of its own, of one new row."""
        simulations, generator = 20_000, seeded(3)
        shape = (rows + 1, simulations)
        x = torch.rand(shape, generator=generator, dtype=torch.float64)
        mean, std = x, 0.1 + x.square()  # of the prediction; the truth is wider and shifted
        y = x + 0.5 + 3 * x * torch.randn(shape, generator=generator, dtype=torch.float64)
        intervals = kind(alpha).fit((mean[:rows], std[:rows]), y[:rows])
        hits = int(intervals((mean[rows:], std[rows:])).contains(y[rows:]).sum())
        exact = conformal_rank(rows, alpha) / (rows + 1)
        assert scipy.stats.binomtest(hits, simulations, exact).pvalue > FALSE_ALARMS


class TestSets:
    def test_the_least_ambiguous_are_those_by_one_less_probability(self) -> None:
        q, y = labelled(57, seeded())
        sets = LeastAmbiguousSets(0.2).fit(q, y)
        scores = (1 - q[torch.arange(57), y]).sort().values
        threshold = scores[math.ceil(58 * 0.8) - 1]
        new, _ = labelled(200, seeded(5))
        assert torch.equal(sets(new).members, 1 - new <= threshold)
        assert torch.equal(sets(new).sizes, (1 - new <= threshold).sum(-1))

    def test_adaptive_scores_by_hand(self) -> None:
        sets = AdaptiveSets(0.5, randomised=False)
        q = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
        sets.fit(q, torch.tensor([2]))  # threshold 0.5 + 0.3
        torch.testing.assert_close(sets.threshold.item(), 0.8)
        assert sets(q).members.tolist() == [[False, True, True]]
        equal = torch.full((1, 3), 1 / 3, dtype=torch.float64)  # in the order of the labels
        assert sets(equal).members.tolist() == [[True, True, False]]

    def test_a_seed_repeats_randomised_sets(self) -> None:
        q, y = labelled(57, seeded())
        sets = AdaptiveSets(0.2).fit(q, y, seeded(1))
        again = AdaptiveSets(0.2).fit(q, y, seeded(1))
        assert torch.equal(sets.threshold, again.threshold)
        assert torch.equal(sets(q, seeded(2)).members, again(q, seeded(2)).members)
        assert not torch.equal(sets(q, seeded(2)).members, sets(q, seeded(3)).members)

    @pytest.mark.parametrize("kind", SETS)
    def test_ties_only_add_labels(self, kind: Sets) -> None:
        q, y = torch.full((40, 4), 0.25), torch.arange(40) % 4
        assert bool(LeastAmbiguousSets().fit(q, y)(q).members.all())
        kind().fit(q, y, seeded())

    @pytest.mark.parametrize("kind", SETS)
    def test_one_class(self, kind: Sets) -> None:
        q, _ = labelled(40, seeded())
        y = torch.zeros(40, dtype=torch.long)
        assert int(kind().fit(q, y, seeded())(q, seeded(1)).contains(y).sum()) > 0

    def test_a_bernoulli_has_two_labels(self) -> None:
        logits = torch.randn(3, 50, 1, generator=seeded())
        p = Predictive(Bernoulli(), StoredDraws(logits))
        y = (logits.mean(0) > 0).float()
        sets = LeastAmbiguousSets(0.2).fit(p, y)(p)
        assert sets.members.shape == (50, 2)
        assert sets.contains(y).shape == (50,)

    def test_labels_that_seem_impossible_make_sets_of_everything(self) -> None:
        q = torch.tensor([[1.0, 0.0]]).repeat(20, 1)
        y = torch.ones(20, dtype=torch.long)
        assert bool(LeastAmbiguousSets().fit(q, y)(q).members.all())

    def test_pixels_are_not_exchangeable(self) -> None:
        p = Predictive(Categorical(dim=1), StoredDraws(torch.randn(2, 20, 3, 4, 4)))
        with pytest.raises(ValueError, match=r"one label a row, got probabilities \(20, 4, 4, 3\)"):
            LeastAmbiguousSets().fit(p, torch.zeros(20, 4, 4, dtype=torch.long))


class TestIntervals:
    def test_standardised(self) -> None:
        mean, std, y = torch.zeros(19, 1), torch.ones(19, 1), torch.arange(1.0, 20).reshape(19, 1)
        intervals = StandardisedIntervals(0.1).fit((mean, std), y)
        assert intervals.threshold.tolist() == [18.0]
        found = intervals((torch.tensor([[5.0]]), torch.tensor([[2.0]])))
        torch.testing.assert_close(found.low, torch.tensor([[-31.0]]))
        torch.testing.assert_close(found.high, torch.tensor([[41.0]]))

    def test_quantiles_of_draws_are_moved_at_both_ends(self) -> None:
        draws = torch.rand(50, 30, 1, generator=seeded()).square()  # skewed
        p = Predictive(Point(), StoredDraws(draws))
        y = draws[0] + 0.3
        intervals = QuantileIntervals(0.2).fit(p, y)
        low, high = p.interval(0.8)
        scores = torch.maximum(low - y, y - high).squeeze(-1).sort().values
        moved = scores[math.ceil(31 * 0.8) - 1]
        found = intervals(p)
        torch.testing.assert_close(found.low, low - moved)
        torch.testing.assert_close(found.high, high + moved)
        torch.testing.assert_close(found.widths, high - low + 2 * moved)

    def test_intervals_shrink_to_a_point_at_most(self) -> None:
        mean, wide = torch.zeros(19, 1), torch.full((19, 1), 9.0)
        intervals = QuantileIntervals(0.1).fit((mean, wide), mean)
        found = intervals((torch.ones(1, 1), torch.ones(1, 1)))
        torch.testing.assert_close(found.low, torch.ones(1, 1))
        torch.testing.assert_close(found.high, torch.ones(1, 1))

    @pytest.mark.parametrize("kind", INTERVALS)
    def test_other_targets(self, kind: IntervalsOf) -> None:
        ones = torch.ones(19, 2)
        intervals = kind().fit((ones, ones), torch.randn(19, 2, generator=seeded()))
        with pytest.raises(ValueError, match=r"targets of shape \(2,\).*got \(3,\)"):
            intervals((torch.ones(4, 3), torch.ones(4, 3)))

    def test_no_spread(self) -> None:
        p = Predictive(Point(), StoredDraws(torch.ones(2, 19, 1)))
        with pytest.raises(ValueError, match="standard deviation > 0"):
            StandardisedIntervals().fit(p, torch.ones(19, 1))

    def test_labels(self) -> None:
        p = Predictive(Categorical(), StoredDraws(torch.ones(2, 19, 3)))
        with pytest.raises(TypeError, match="prediction of real targets"):
            StandardisedIntervals().fit(p, torch.ones(19))


class TestState:
    @pytest.mark.parametrize("kind", SETS)
    def test_sets(self, kind: Sets, tmp_path: Path) -> None:
        q, y = labelled(40, seeded())
        fitted = kind(0.2).fit(q, y, seeded())
        torch.save(fitted.state_dict(), tmp_path / "state.pt")
        loaded = kind()
        loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert float(loaded.alpha) == 0.2
        assert torch.equal(loaded(q, seeded(1)).members, fitted(q, seeded(1)).members)

    @pytest.mark.parametrize("kind", INTERVALS)
    def test_intervals(self, kind: IntervalsOf, tmp_path: Path) -> None:
        p = Predictive(Gaussian(2.0), StoredDraws(torch.randn(4, 40, 3, generator=seeded())))
        fitted = kind(0.2).fit(p, torch.randn(40, 3, generator=seeded(1)))
        torch.save(fitted.state_dict(), tmp_path / "state.pt")
        loaded = torch.nn.ModuleList([kind()])  # inside of another module as well
        state = torch.load(tmp_path / "state.pt", weights_only=True)
        loaded.load_state_dict({f"0.{name}": value for name, value in state.items()})
        assert torch.equal(loaded[0](p).low, fitted(p).low)

    def test_shapes_of_other_layers_are_still_checked(self) -> None:
        with pytest.raises(RuntimeError, match="Missing key"):
            StandardisedIntervals().load_state_dict({"alpha": torch.tensor(0.1)})


class TestMistakes:
    @pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 10.0, math.nan, "a"])
    @pytest.mark.parametrize("kind", [*SETS, *INTERVALS])
    def test_alpha(self, kind: Sets | IntervalsOf, alpha: Any) -> None:
        with pytest.raises(ValueError, match="alpha: expected a probability"):
            kind(alpha)

    def test_not_fitted(self) -> None:
        with pytest.raises(RuntimeError, match=r"expected a threshold.*fit first"):
            LeastAmbiguousSets()(torch.full((2, 2), 0.5))
        with pytest.raises(RuntimeError, match=r"expected a threshold.*fit first"):
            StandardisedIntervals()((torch.ones(2, 2), torch.ones(2, 2)))

    @pytest.mark.parametrize("kind", SETS)
    def test_data(self, kind: Sets) -> None:
        q, y = labelled(20, seeded())
        with pytest.raises(ValueError, match="at least 9 validation rows"):
            kind().fit(q[:8], y[:8])
        with pytest.raises(ValueError, match="non-empty"):
            kind().fit(q[:0], y[:0])
        with pytest.raises(ValueError, match="each of 20 rows"):
            kind().fit(q, y[:19])
        with pytest.raises(ValueError, match=r"p: .*probabilities, got NaN"):
            kind().fit(q * math.nan, y)
        with pytest.raises(ValueError, match=r"p: .*pass logits.softmax"):
            kind().fit(q.log(), y)
        sets = kind().fit(q, y)
        with pytest.raises(ValueError, match="NaN"):
            sets(Predictive(Categorical(), StoredDraws(torch.full((1, 2, 5), math.nan))))

    @pytest.mark.parametrize("kind", INTERVALS)
    def test_numbers(self, kind: IntervalsOf) -> None:
        ones = torch.ones(20, 2)
        with pytest.raises(ValueError, match="y: expected shape"):
            kind().fit((ones, ones), ones[:19])
        with pytest.raises(ValueError, match="NaN"):
            kind().fit((ones, ones), ones * math.nan)
        with pytest.raises(TypeError, match="y: expected a tensor"):
            kind().fit((ones, ones), ones.numpy())  # type: ignore[arg-type]


def test_thresholds_keep_their_precision() -> None:
    """Rounded, the threshold would fall below the score that it was, and leave out all its ties."""
    probabilities = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.35, 0.4]]).double()
    p = probabilities[torch.arange(300) % 3]
    fitted = LeastAmbiguousSets(0.4).fit(p, p.argmax(-1))
    before = fitted(p).members
    for cast in (fitted.float, fitted.half, fitted.bfloat16):
        assert torch.equal(cast()(p).members, before)


def test_states_of_other_classes_are_refused() -> None:
    mean, std = torch.zeros(50, 1), torch.ones(50, 1)
    fitted = StandardisedIntervals().fit((mean, std), torch.randn(50, 1))
    for other in (QuantileIntervals(), LeastAmbiguousSets()):
        with pytest.raises(RuntimeError, match="got that of another class"):
            other.load_state_dict(fitted.state_dict())


def test_contains_does_not_broadcast() -> None:
    mean, std, y = torch.zeros(50, 1), torch.ones(50, 1), torch.randn(50, 1)
    intervals = StandardisedIntervals().fit((mean, std), y)((mean, std))
    assert intervals.contains(y).shape == (50, 1)
    for wrong in (y[:, 0], y[:1]):
        with pytest.raises(ValueError, match="one for each interval"):
            intervals.contains(wrong)
    p = torch.full((30, 3), 1 / 3)
    sets = LeastAmbiguousSets().fit(p, torch.arange(30) % 3)(p)
    for wrong in (torch.zeros(7).long(), torch.full((30,), 0.7), torch.tensor(0)):
        with pytest.raises(ValueError, match="one for each set"):
            sets.contains(wrong)
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        sets.contains(torch.full((30,), -1))
