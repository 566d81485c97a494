"""Deferral: its guarantee on repeated simulations, and its edges.

In the simulations the probability of the likelier of two classes is (1 + x) / 2 with x ~ U(0, 1),
so that the score `std` is √((1 − x²)/2) and the error rate and coverage of a threshold are known
exactly.
Counts of failures are tested by exact binomial tests with a false-alarm rate of 1e-6 each.
"""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import scipy.stats
import torch
from torch import Tensor

import dubio
from dubio.decide import Deferral
from dubio.decide.scores import SCORES, Score
from dubio.likelihoods import Bernoulli, Categorical, Gaussian
from dubio.predictive.predictive import Predictive, StoredDraws

FALSE_ALARMS = 1e-6
CONFIDENCE = 0.8
REPEATS = 120


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def simulated(
    rows: int, generator: torch.Generator, error: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Probabilities of two classes, and labels that differ from the likelier at some rate."""
    x = torch.rand(rows, generator=generator, dtype=torch.float64)
    y = torch.bernoulli(error(x), generator=generator).long()
    return torch.stack([(1 + x) / 2, (1 - x) / 2], -1), y


def doubt(threshold: float) -> float:
    """The x above which rows are answered."""
    return math.sqrt(max(0.0, 1 - 2 * threshold**2)) if threshold < math.inf else 0.0


def failures(
    fit: Callable[[Tensor, Tensor], Deferral],
    fails: Callable[[float], bool],
    error: Callable[[Tensor], Tensor],
    rows: int,
) -> tuple[int, int]:
    """How often, of REPEATS, a threshold was found that does not keep its promise; and found."""
    generator, failed, found = seeded(1), 0, 0
    for _ in range(REPEATS):
        q, y = simulated(rows, generator, error)
        try:
            deferral = fit(q, y)
        except ValueError:
            continue
        found += 1
        failed += fails(doubt(float(deferral.threshold)))
    return failed, found


class TestGuarantee:
    limit = float(scipy.stats.binom.isf(FALSE_ALARMS, REPEATS, 1 - CONFIDENCE))

    def test_error_rate(self) -> None:
        failed, found = failures(
            lambda q, y: Deferral("std", confidence=CONFIDENCE).fit_error_rate(q, y, 0.1),
            lambda x: 0.15 * (1 - x) > 0.1,  # the mean of 0.3 (1 − x) above x
            lambda x: 0.3 * (1 - x),
            rows=1000,
        )
        assert found > REPEATS / 2
        assert failed <= self.limit

    @pytest.mark.parametrize("scores", ["std", ("std", "entropy")])
    def test_an_error_rate_that_no_threshold_has(self, scores: Score | tuple[Score, ...]) -> None:
        """Every threshold errs at the same rate, above the wish: whatever is found is a failure."""
        failed, found = failures(
            lambda q, y: Deferral(scores, confidence=CONFIDENCE).fit_error_rate(q, y, 0.1),
            lambda x: True,
            lambda x: torch.full_like(x, 0.1001),
            rows=400,
        )
        assert failed == found <= self.limit

    @pytest.mark.parametrize(("rows", "coverage"), [(100, 0.8), (37, 0.5)])
    def test_coverage(self, rows: int, coverage: float) -> None:
        law = scipy.stats.binom(rows, coverage)
        rank = next(k for k in range(rows + 1) if law.sf(k - 1) <= 1 - CONFIDENCE)
        failed, found = failures(
            lambda q, y: Deferral("std", confidence=CONFIDENCE).fit_coverage(q, coverage),
            lambda x: 1 - x < coverage,
            lambda x: 0.5 * x,
            rows=rows,
        )
        assert found == REPEATS
        assert scipy.stats.binomtest(failed, REPEATS, law.sf(rank - 1)).pvalue > FALSE_ALARMS


class TestThreshold:
    def test_the_last_threshold_before_one_that_fails(self) -> None:
        q, y = simulated(500, seeded(), lambda x: 0.3 * (1 - x))
        deferral = Deferral("entropy").fit_error_rate(q, y, 0.1)
        entropies = torch.special.entr(q).sum(-1)
        kept = 0
        for rows in range(125, 501):
            errors = int(y[entropies.argsort()[:rows]].sum())
            if scipy.stats.binom.cdf(errors, rows, 0.1) > 0.05:
                break
            kept = rows
        assert 125 < kept < 500
        decision = deferral(q)
        assert int(decision.answered.sum()) == kept
        assert decision.coverage == kept / 500
        assert float(deferral.threshold) == float(entropies.sort().values[kept])
        assert float(deferral.error_bound) == 0.1
        assert torch.equal(decision.answer, torch.where(decision.answered, 0, -1))
        assert torch.equal(decision.scores, entropies)

    @pytest.mark.parametrize(("rows", "coverage"), [(100, 0.8), (37, 0.5), (500, 0.99)])
    def test_the_smallest_rank_that_is_sure_to_cover(self, rows: int, coverage: float) -> None:
        q, _ = simulated(rows, seeded(), lambda x: 0 * x)
        law = scipy.stats.binom(rows, coverage)
        rank = next(k for k in range(rows + 1) if law.sf(k - 1) <= 0.05)
        assert int(Deferral().fit_coverage(q, coverage)(q).answered.sum()) == rank

    def test_all_right_answers_all(self) -> None:
        q, _ = simulated(200, seeded(), lambda x: 0 * x)
        deferral = Deferral().fit_error_rate(q, torch.zeros(200, dtype=torch.long), 0.05)
        assert float(deferral.threshold) == math.inf
        assert deferral(q).coverage == 1.0

    def test_ties_are_answered_together_or_not_at_all(self) -> None:
        q = torch.tensor([[0.9, 0.1], [0.6, 0.4]]).repeat_interleave(300, 0)
        y = torch.cat([torch.zeros(300), torch.arange(300) % 2]).long()
        by_error = Deferral().fit_error_rate(q, y, 0.05)
        assert by_error(q).answered.tolist() == [True] * 300 + [False] * 300
        by_coverage = Deferral().fit_coverage(q, 0.3)
        assert by_coverage(q).answered.tolist() == [True] * 300 + [False] * 300
        assert Deferral().fit_coverage(q, 0.6)(q).coverage == 1.0
        equal = torch.full((300, 2), 0.5)
        with pytest.raises(ValueError, match="the nearest bound is"):
            Deferral().fit_error_rate(equal, y[300:], 0.05)

    def test_it_takes_the_better_score(self) -> None:
        """Draws that disagree are wrong: entropy sees only the mean, which is the same."""
        rows = 600
        wild = torch.arange(rows) % 2 == 1
        agree = torch.tensor([0.8, 0.2]).expand(10, rows, 2)
        differ = torch.tensor([[1.0, 0.0]] * 8 + [[0.0, 1.0]] * 2).unsqueeze(1).expand(10, rows, 2)
        draws = torch.where(wild[:, None], differ, agree)
        p = Predictive(Categorical(outputs="probabilities"), StoredDraws(draws))
        y = (wild & (torch.arange(rows) % 4 == 1)).long()
        with pytest.raises(ValueError, match="by entropy"):
            Deferral("entropy").fit_error_rate(p, y, 0.05)
        both = Deferral(("entropy", "mutual_information")).fit_error_rate(p, y, 0.05)
        assert both.score == "mutual_information"
        assert torch.equal(both(p).answered, ~wild)
        by_coverage = Deferral(("entropy", "mutual_information")).fit_coverage(p, 0.4, y)
        assert by_coverage.score == "mutual_information"
        assert torch.equal(by_coverage(p).answered, ~wild)

    @pytest.mark.parametrize("score", SCORES)
    def test_every_score_of_a_network(self, score: Score) -> None:
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(4, 9), torch.nn.Dropout(0.5), torch.nn.Linear(9, 3)
        )
        p = dubio.predict(net, torch.randn(200, 4), likelihood=Categorical(), draws=20)
        decision = Deferral(score).fit_coverage(p, 0.5)(p)
        assert 0.5 < decision.coverage <= 1
        values = getattr(p, score) if score != "std" else (1 - p.mean.square().sum(-1)).sqrt()
        torch.testing.assert_close(decision.scores.float(), values)
        assert torch.equal(decision.answer[decision.answered], p.mean.argmax(-1)[decision.answered])

    def test_a_bernoulli(self) -> None:
        logits = 4 * torch.randn(5, 300, 1, generator=seeded())
        p = Predictive(Bernoulli(), StoredDraws(logits))
        y = (p.mean > 0.5).float()
        decision = Deferral().fit_error_rate(p, y, 0.05)(p)
        assert torch.equal(decision.answer, y.long().squeeze(-1))

    def test_real_targets(self) -> None:
        std = torch.linspace(0.1, 2, 800).reshape(-1, 1).repeat(1, 2)
        mean = torch.zeros(800, 2)
        y = std * torch.randn(800, 2, generator=seeded())
        deferral = Deferral("std", tolerance=1.0).fit_error_rate((mean, std), y, 0.1)
        decision = deferral((mean, std))
        assert 0.1 < decision.coverage < 0.6
        wrong = (y.abs() > 1).any(-1)
        assert float(wrong[decision.answered].float().mean()) <= float(deferral.error_bound) <= 0.1
        assert torch.equal(decision.answer.isnan().any(-1), ~decision.answered)
        torch.testing.assert_close(decision.scores, (std.double().square().sum(-1)).sqrt())

    def test_doubtful_numbers_are_deferred(self) -> None:
        q, y = simulated(200, seeded(), lambda x: 0 * x)
        deferral = Deferral().fit_error_rate(q, y, 0.1)
        p = Predictive(Categorical(), StoredDraws(torch.tensor([[[math.nan, 0.0], [3.0, 0.0]]])))
        assert deferral(p).answered.tolist() == [False, True]

    def test_saved(self, tmp_path: Path) -> None:
        q, y = simulated(500, seeded(), lambda x: 0.3 * (1 - x))
        fitted = Deferral(("std", "entropy")).fit_error_rate(q, y, 0.08)
        torch.save(fitted.state_dict(), tmp_path / "state.pt")
        loaded = Deferral()
        loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert loaded.score == "std"
        assert torch.equal(loaded(q).answer, fitted(q).answer)
        assert torch.equal(loaded.error_bound, fitted.error_bound)


class TestMistakes:
    q, y = simulated(100, seeded(), lambda x: 0.3 * (1 - x))

    def test_not_fitted(self) -> None:
        with pytest.raises(RuntimeError, match=r"a threshold.*call fit_error_rate or fit_coverage"):
            Deferral()(self.q)

    @pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 95.0, math.nan])
    def test_probabilities(self, value: float) -> None:
        with pytest.raises(ValueError, match="confidence: expected a probability"):
            Deferral(confidence=value)
        with pytest.raises(ValueError, match=r"error_rate: expected a probability.*; 0.05 is one"):
            Deferral().fit_error_rate(self.q, self.y, value)
        with pytest.raises(ValueError, match="coverage: expected a probability"):
            Deferral().fit_coverage(self.q, value)

    def test_scores(self) -> None:
        for scores in ("entropie", (), ("entropy", "margin")):
            with pytest.raises(ValueError, match="scores: expected some of"):
                Deferral(scores)  # type: ignore[arg-type]
        p = Predictive(Gaussian(1.0), StoredDraws(torch.ones(2, 100, 1)))
        with pytest.raises(TypeError, match="entropy"):
            Deferral("entropy").fit_coverage(p, 0.5)

    @pytest.mark.parametrize("score", ["mutual_information", "variation_ratio"])
    def test_one_draw(self, score: Score) -> None:
        with pytest.raises(ValueError, match="at least 2 draws"):
            Deferral(score).fit_coverage(self.q, 0.5)

    def test_too_few_rows(self) -> None:
        needed = math.ceil(math.log(0.05) / math.log(0.99))
        with pytest.raises(
            ValueError, match=f"at least {needed} validation rows for 0.01.*got 100"
        ):
            Deferral().fit_error_rate(self.q, self.y, 0.01)
        with pytest.raises(ValueError, match=r"at least 14 validation rows for 0.8.*got 13"):
            Deferral().fit_coverage(self.q[:13], 0.8)
        Deferral().fit_coverage(self.q[:14], 0.8)

    def test_out_of_reach(self) -> None:
        with pytest.raises(
            ValueError, match=r"the nearest bound is 0.*by entropy at a coverage of"
        ):
            Deferral().fit_error_rate(self.q, 1 - self.y, 0.1)

    def test_targets(self) -> None:
        with pytest.raises(ValueError, match="each of 100 rows"):
            Deferral().fit_error_rate(self.q, self.y[:99], 0.1)
        with pytest.raises(ValueError, match="y: expected targets to choose"):
            Deferral(("entropy", "std")).fit_coverage(self.q, 0.5)
        with pytest.raises(ValueError, match="non-empty"):
            Deferral().fit_coverage(self.q[:0], 0.5)
        with pytest.raises(ValueError, match=r"p: .*probabilities, got NaN"):
            Deferral().fit_error_rate(self.q * math.nan, self.y, 0.1)
        with pytest.raises(ValueError, match=r"p: .*pass logits.softmax"):
            Deferral().fit_error_rate(self.q.log(), self.y, 0.1)
        pair = (torch.ones(100, 1), torch.ones(100, 1))
        with pytest.raises(ValueError, match="tolerance: expected one for real targets"):
            Deferral("std").fit_error_rate(pair, torch.ones(100, 1), 0.1)
        with pytest.raises(ValueError, match="tolerance: expected >= 0"):
            Deferral("std", tolerance=-1.0)

    def test_pixels(self) -> None:
        p = Predictive(Categorical(dim=1), StoredDraws(torch.randn(2, 100, 3, 4, 4)))
        with pytest.raises(ValueError, match="one label a row"):
            Deferral().fit_coverage(p, 0.5)

    def test_numbers_that_are_not_finite(self) -> None:
        p = Predictive(Categorical(), StoredDraws(torch.full((2, 100, 3), math.nan)))
        with pytest.raises(ValueError, match="finite scores"):
            Deferral().fit_coverage(p, 0.5)


def test_targets_in_the_place_of_a_coverage() -> None:
    p = torch.full((30, 3), 1 / 3)
    with pytest.raises(ValueError, match="coverage: expected a probability"):
        Deferral().fit_coverage(p, torch.arange(30) % 3, 0.5)  # type: ignore[arg-type]
