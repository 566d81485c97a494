"""Ties, single classes, certainty, perfection: where definitions must decide."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from dubio import metrics
from metric_references import P, Y, seeded

ONE_CLASS = torch.ones(6, 1)
CERTAIN = torch.eye(3).repeat(2, 1)  # six predictions without a doubt
RIGHT = CERTAIN.argmax(1)


def random_rows(count: int, classes: int = 3, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    logits = sharpness * torch.randn(count, classes, generator=seeded(0), dtype=torch.float64)
    p = logits.softmax(1)
    return p, torch.multinomial(p, 1, generator=seeded(1)).squeeze(1)


class TestPAvgPU:
    @pytest.mark.parametrize(
        ("p", "y"), [(P, Y), random_rows(50), (CERTAIN, RIGHT.roll(1)), (CERTAIN, RIGHT)]
    )
    @pytest.mark.parametrize("bounds", [None, (0.2, 0.7)])
    def test_the_ends_are_the_shares_of_inaccurate_and_accurate(
        self, p: Tensor, y: Tensor, bounds: tuple[float, float] | None
    ) -> None:
        curve, right = metrics.pavgpu(p, y, bounds=bounds), (p.argmax(1) == y).double().mean()
        torch.testing.assert_close(curve.pavgpu[0], 1 - right.double())
        torch.testing.assert_close(curve.pavgpu[-1], right.double())

    def test_an_entropy_at_the_threshold_is_certain(self) -> None:
        p = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.5, 0.5]], dtype=torch.float64)
        uncertainty = torch.tensor([0.0, 0.25, 1.0])
        curve = metrics.pavgpu(p, torch.tensor([0, 0, 1]), points=5, uncertainty=uncertainty)
        assert curve.t.tolist() == [0, 0.25, 0.5, 0.75, 1]
        expected = torch.tensor([1 / 3, 1, 1, 1, 2 / 3], dtype=torch.float64)
        torch.testing.assert_close(curve.pavgpu, expected)

    def test_all_correct(self) -> None:
        p = random_rows(50)[0]
        curve = metrics.pavgpu(p, p.argmax(1))
        assert curve.uncertain_given_inaccurate.isnan().all()
        assert curve.accurate_given_certain[1:].eq(1).all()
        assert curve.accurate_given_certain[0].isnan()  # nobody is certain

    def test_all_certain(self) -> None:
        curve = metrics.pavgpu(CERTAIN, RIGHT.roll(1))
        assert curve.pavgpu[0] == 1
        assert curve.pavgpu[1:].eq(0).all()

    def test_the_mean_has_a_closed_form(self) -> None:
        p, y = random_rows(400)
        h = torch.distributions.Categorical(p).entropy()
        r = (h - h.min()) / (h.max() - h.min())
        expected = torch.where(p.argmax(1) == y, 1 - r, r).mean()
        found = metrics.pavgpu(p, y, points=20_001).mean
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)

    def test_ranks_see_no_increasing_function_of_the_uncertainty(self) -> None:
        p, y = random_rows(400)
        h = torch.distributions.Categorical(p).entropy().round(decimals=1)  # ties
        plain, bent = (
            metrics.pavgpu(p, y, uncertainty=u, ranks=True) for u in (h, h.exp().pow(9) - 5)
        )
        for one, other in zip(plain, bent, strict=True):
            assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1))
        one, other = (metrics.pavgpu(p, y, uncertainty=u) for u in (h, h.exp().pow(9) - 5))
        assert abs(one.mean - other.mean) > 0.05

    @pytest.mark.parametrize("decimals", [0, 1, 9])
    def test_the_mean_of_ranks_follows_from_accuracy_and_auroc(self, decimals: int) -> None:
        p, y = random_rows(400)
        h = torch.distributions.Categorical(p).entropy().round(decimals=decimals)
        right, area = metrics.accuracy(p, y), metrics.error_detection(p, y, uncertainty=h).auroc
        found = metrics.pavgpu(p, y, uncertainty=h, ranks=True, points=20_001).mean
        expected = 0.5 + 2 * right * (1 - right) * (area - 0.5)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)

    def test_one_threshold(self) -> None:
        p, y = random_rows(50)
        h, right = torch.distributions.Categorical(p).entropy(), p.argmax(1) == y
        for threshold, value in (("mean", h.mean()), (0.4, 0.4), (float(h[7]), h[7])):
            counts = metrics.certainty(p, y, threshold=threshold)
            sure = h <= value + 1e-12
            assert int(counts.accurate_certain) == int((right & sure).sum())
            assert int(counts.inaccurate_uncertain) == int((~right & ~sure).sum())
            assert int(sum(counts)) == 50
            share = ((right & sure) | (~right & ~sure)).double().mean()
            torch.testing.assert_close(counts.pavgpu, share)

    def test_bounds_make_the_state_small(self) -> None:
        metric = metrics.PAvgPU(bounds=(0.0, 1.1), points=11)
        for _ in range(3):
            metric.update(P, Y)
        assert {name: tuple(state.shape) for name, state in metric.metric_state.items()} == {
            "counts": (2, 11)
        }


class TestTies:
    def test_selections_are_expectations_over_orders(self) -> None:
        doubt = torch.tensor([1.0, 1.0, 0.0, 2.0, 1.0, 2.0])
        loss = torch.tensor([0.0, 3.0, 1.0, 5.0, 1.0, 2.0])
        risks = []
        for order in itertools.permutations(range(6)):
            if all(doubt[a] <= doubt[b] for a, b in itertools.pairwise(order)):
                risks.append(np.cumsum(loss[list(order)].numpy()) / np.arange(1, 7))
        curve = metrics.risk_coverage_of(doubt, loss)
        np.testing.assert_allclose(curve.risk, np.mean(risks, 0))
        assert float(curve.aurc) == pytest.approx(np.mean(risks))

    @pytest.mark.parametrize("metric", [metrics.aurc, metrics.ace, metrics.ece])
    def test_the_order_of_rows_does_not_matter(self, metric: object) -> None:
        assert callable(metric)
        order = torch.randperm(len(P), generator=seeded(3))
        torch.testing.assert_close(metric(P, Y), metric(P[order], Y[order]))

    def test_constant_scores_do_not_separate(self) -> None:
        found = metrics.separation(torch.ones(30), torch.ones(10))
        assert [float(value) for value in found] == [0.5, 0.25, 1.0]

    def test_errors_that_do_not_exist_are_not_detected(self) -> None:
        p, _ = random_rows(20)
        for y in (p.argmax(1), (p.argmax(1) + 1) % 3):  # all right, and all wrong
            assert all(value.isnan() for value in metrics.error_detection(p, y))

    def test_coverage_rounds_up_and_not_by_rounding_errors(self) -> None:
        curve = metrics.risk_coverage_of(torch.arange(100.0), torch.arange(100.0))
        assert 0.55 * 100 > 55
        assert float(curve.accuracy_at(0.55)) == 1 - np.arange(55).mean()
        assert float(curve.accuracy_at(0.551)) == 1 - np.arange(56).mean()
        assert float(curve.accuracy_at(1e-9)) == 1


class TestRounding:
    """Predictions that differ in the order of classes alone are equally doubtful, to the bit."""

    @staticmethod
    def orders(classes: int, dtype: torch.dtype) -> Tensor:
        p = torch.rand(classes, generator=seeded(classes), dtype=torch.float64)
        rows = [p / p.sum()]
        rows += [p[torch.randperm(classes, generator=seeded(k))] / p.sum() for k in range(100)]
        return torch.stack(rows).to(dtype)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("classes", [2, 3, 4, 7, 10, 33, 1000])
    def test_of_rows(self, classes: int, dtype: torch.dtype) -> None:
        p = self.orders(classes, dtype)
        y = torch.arange(len(p)) % classes
        wrong = (p.argmax(1) != y).double().mean()
        risk = metrics.risk_coverage(p, y).risk
        torch.testing.assert_close(risk, wrong.expand_as(risk), rtol=1e-12, atol=0)
        counts = metrics.certainty(p, y)
        assert counts.accurate_uncertain + counts.inaccurate_uncertain == 0
        found = metrics.pavgpu(p, y).pavgpu[1:]
        torch.testing.assert_close(found, (1 - wrong).expand_as(found), rtol=1e-12, atol=0)

    def test_of_pixels(self) -> None:
        p = self.orders(5, torch.float32)[:100].T.reshape(1, 5, 10, 10)
        y = torch.arange(100).reshape(1, 10, 10) % 5
        wrong = (p.argmax(1) != y).double().mean()
        risk = metrics.risk_coverage(p, y).risk
        torch.testing.assert_close(risk, wrong.expand_as(risk), rtol=1e-12, atol=0)
        counts = metrics.certainty(p, y, window=2)
        assert counts.accurate_uncertain + counts.inaccurate_uncertain == 0

    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
    def test_a_threshold_that_is_an_entropy(self, dtype: torch.dtype) -> None:
        """As it is computed elsewhere, at the precision of the predictions."""
        p = random_rows(200)[0].to(dtype)
        y = p.argmax(1)
        entropies = torch.special.entr(p.flip(1).float() if dtype == torch.float16 else p.flip(1))
        for threshold in entropies.sum(1).sort().values[::20].tolist():
            below = int((torch.special.entr(p.double()).sum(1) <= threshold + 1e-6).sum())
            assert int(metrics.certainty(p, y, threshold=threshold).accurate_certain) == below

    def test_thresholds_of_a_grid(self) -> None:
        tenths = torch.arange(11, dtype=torch.float64) / 10
        p, y = torch.tensor([[0.6, 0.4]]).repeat(11, 1), torch.zeros(11, dtype=torch.long)
        curve = metrics.pavgpu(p, y, points=11, uncertainty=tenths)
        expected = torch.tensor([0, 2, *range(3, 12)], dtype=torch.float64) / 11
        torch.testing.assert_close(curve.pavgpu, expected)


class TestPerfection:
    def test_certain_and_right(self) -> None:
        for zero in (metrics.nll, metrics.brier, metrics.ece, metrics.mce, metrics.ace,
                     metrics.classwise_ece, metrics.calibration_rmse, metrics.aurc):  # fmt: skip
            assert float(zero(CERTAIN, RIGHT)) == 0
        assert float(metrics.accuracy(CERTAIN, RIGHT)) == 1
        assert float(metrics.mean_iou(CERTAIN, RIGHT, 3)) == 1

    def test_certain_and_wrong(self) -> None:
        wrong = RIGHT.roll(1)
        assert float(metrics.nll(CERTAIN, wrong)) == math.inf
        assert float(metrics.brier(CERTAIN, wrong)) == 2
        assert float(metrics.ece(CERTAIN, wrong)) == float(metrics.mce(CERTAIN, wrong)) == 1
        assert float(metrics.aurc(CERTAIN, wrong)) == 1
        assert float(metrics.mean_iou(CERTAIN, wrong, 3)) == 0

    def test_certain_is_in_the_last_bin(self) -> None:
        curve = metrics.reliability(CERTAIN, RIGHT, bins=4)
        assert curve.cases.tolist() == [0, 0, 0, 6]
        assert curve.confidence[:3].isnan().all()

    def test_one_class(self) -> None:
        y = torch.zeros(6, dtype=torch.long)
        for zero in (metrics.nll, metrics.brier, metrics.ece, metrics.ace, metrics.aurc):
            assert float(zero(ONE_CLASS, y)) == 0
        assert metrics.accuracy_by_entropy(ONE_CLASS, y).cases[0] == 6
        assert float(metrics.mean_iou(ONE_CLASS, y, 1)) == 1
        assert metrics.pavgpu(ONE_CLASS, y).pavgpu.tolist() == [0.0] + [1.0] * 100

    def test_labels_of_one_class_only(self) -> None:
        p, _ = random_rows(20)
        y = torch.zeros(20, dtype=torch.long)
        assert 0 < float(metrics.ece(p, y)) < 1
        iou = metrics.class_iou(p, y, 3)
        assert iou[1:].eq(0).all()  # predicted, never right

    def test_a_class_that_is_nowhere_is_left_out(self) -> None:
        y = torch.tensor([[0, 1], [1, 1]])
        found = metrics.class_iou(y, y, 3)
        assert found[:2].tolist() == [1, 1]
        assert found[2].isnan()
        assert float(metrics.mean_iou(y, y, 3)) == 1

    def test_a_point_forecast_scores_its_absolute_error(self) -> None:
        x, y = torch.randn(1, 9, generator=seeded(4)), torch.randn(9, generator=seeded(5))
        torch.testing.assert_close(metrics.crps(x, y), (x[0] - y).abs().double().mean())

    @pytest.mark.parametrize("fair", [True, False])
    @pytest.mark.parametrize("infinite", [math.inf, -math.inf])
    def test_an_infinite_target_scores_infinity(self, infinite: float, fair: bool) -> None:
        x, y = torch.randn(10, 3, generator=seeded(4)), torch.tensor([0.0, infinite, 1.0])
        for p in (x, Normal(x, torch.ones_like(x)), Normal(x[:2], torch.ones(2, 3))):
            assert float(metrics.crps(p, y, fair=fair)) == math.inf

    def test_a_gaussian_has_the_well_known_score(self) -> None:
        mean, std, y = torch.randn(3, 9, generator=seeded(6), dtype=torch.float64)
        std = std.exp()
        unit, z = Normal(0.0, 1.0), (y - mean) / std
        expected = std * (
            z * (2 * unit.cdf(z) - 1) + 2 * unit.log_prob(z).exp() - 1 / math.sqrt(math.pi)
        )
        torch.testing.assert_close(metrics.crps(Normal(mean, std), y), expected.mean())

    def test_the_fair_score_is_unbiased_for_few_draws(self) -> None:
        # z-test at 6 standard errors: false alarm 2e-9; the plain score is biased by 0.28
        x = torch.randn(2, 40_000, generator=seeded(7), dtype=torch.float64)
        y = torch.randn(40_000, generator=seeded(8), dtype=torch.float64)
        exact = metrics.crps(Normal(torch.zeros_like(y), torch.ones_like(y)), y)
        assert abs(metrics.crps(x, y, fair=True) - exact) < 6 * 0.6 / math.sqrt(40_000)
        assert abs(metrics.crps(x, y) - exact) > 0.2

    def test_draws_of_the_truth_are_calibrated(self) -> None:
        # ranks are uniform; each share of 40,000 has a standard error below 0.0025, here 8 of them
        x = torch.randn(3, 40_000, generator=seeded(9))
        y = torch.randn(40_000, generator=seeded(10))
        curve = metrics.quantile_calibration(x, y, levels=3)  # at 1/4, 1/2, 3/4
        assert (curve.observed - curve.expected).abs().max() < 0.02

    def test_fewer_items_than_the_cutoff(self) -> None:
        scores, wanted = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0, 1, 0]])
        assert float(metrics.recall_at(scores, wanted, 100)) == 1
        assert float(metrics.ndcg_at(scores, wanted, 100)) == pytest.approx(1 / math.log2(3))
        seen = torch.tensor([[1, 0, 0]])
        assert float(metrics.ndcg_at(scores, wanted, 100, fold_in=seen)) == 1

    def test_fewer_rows_than_pieces(self) -> None:
        p, y = random_rows(5)
        per_row = (p - torch.nn.functional.one_hot(y, 3)).abs().mean()
        torch.testing.assert_close(metrics.ace(p, y, bins=15), per_row)


def test_pooled_curves_join_the_classes() -> None:
    pooled = metrics.classwise_reliability(P, Y, bins=10).pooled()
    flat = torch.nn.functional.one_hot(Y, 4).flatten()
    binary = torch.stack([1 - P.flatten(), P.flatten()], 1)
    same = metrics.classwise_reliability(binary, flat, bins=10)
    for one, other in zip(pooled, same, strict=True):
        torch.testing.assert_close(one, other[1], equal_nan=True)
    gaps = (pooled.accuracy - pooled.confidence).nan_to_num(0.0)
    expected = ((pooled.cases * gaps**2).sum() / pooled.cases.sum()).sqrt()
    torch.testing.assert_close(pooled.rmse, expected)
