"""What metrics take: predictive distributions, plain tensors of any precision; and what not."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

import dubio
from dubio import metrics
from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    Multinomial,
    Point,
)
from dubio.predictive.predictive import Predictive, StoredDraws
from metric_cases import CASES, Case
from metric_references import HELD_OUT, LABELS, MAPS, MEAN, STD, TARGET, VOID, P, Y, seeded

LOGITS = 2 * torch.randn(5, 30, 4, generator=seeded(20))
UPSIDE_DOWN = metrics.Interval(TARGET, TARGET - 1)
TOO_FEW = metrics.Interval(TARGET[:5], TARGET[:5])
ANSWER = torch.randint(4, (30,), generator=seeded(21))


def predictive(likelihood: Likelihood, outputs: Tensor) -> Predictive:
    return Predictive(likelihood, StoredDraws(outputs))


OF_LABELS: list[Callable[..., Any]] = [
    metrics.accuracy,
    metrics.nll,
    metrics.brier,
    metrics.reliability,
    metrics.classwise_reliability,
    metrics.ece,
    metrics.mce,
    metrics.classwise_ece,
    metrics.ace,
    metrics.accuracy_by_entropy,
    metrics.certainty,
    metrics.pavgpu,
    metrics.risk_coverage,
    metrics.aurc,
    lambda p, y, **options: metrics.accuracy_at_coverage(p, y, 0.5, **options),
]
OF_MAPS = [metrics.global_accuracy, metrics.class_iou, metrics.mean_iou, metrics.image_iou]
OF_NUMBERS = [
    metrics.crps,
    metrics.interval_coverage,
    metrics.interval_score,
    metrics.quantile_calibration,
    metrics.quantile_calibration_rmse,
]


def assert_same(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    for one, other in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, expected)),
                          strict=True):  # fmt: skip
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)


class TestPredictive:
    @pytest.mark.parametrize("metric", OF_LABELS)
    def test_of_rows(self, metric: Callable[..., Any]) -> None:
        p = predictive(Categorical(), LOGITS)
        assert_same(metric(p, ANSWER), metric(LOGITS.softmax(-1).mean(0), ANSWER))

    @pytest.mark.parametrize("metric", OF_LABELS)
    def test_of_pixels(self, metric: Callable[..., Any]) -> None:
        p = predictive(Categorical(dim=1, outputs="probabilities"), MAPS[None])
        assert_same(metric(p, LABELS, void=VOID), metric(MAPS, LABELS, void=VOID))

    @pytest.mark.parametrize("metric", OF_MAPS)
    def test_of_maps(self, metric: Callable[..., Any]) -> None:
        p = predictive(Categorical(dim=1, outputs="probabilities"), MAPS[None])
        expected = metric(MAPS.argmax(1), LABELS, 3, void=VOID)
        assert_same(metric(p, LABELS, 3, void=VOID), expected)

    @pytest.mark.parametrize(
        "metric", [metric for metric in OF_LABELS if metric is not metrics.nll]
    )
    @pytest.mark.parametrize("kind", [torch.long, torch.float32])
    def test_of_several_questions(self, metric: Callable[..., Any], kind: torch.dtype) -> None:
        y = (LOGITS[0] > 0.5).to(kind)
        yes = LOGITS.sigmoid().mean(0)
        expected = metric(torch.stack([1 - yes, yes], 1), y.long())
        assert_same(metric(predictive(Bernoulli(), LOGITS), y), expected)

    def test_the_likelihood_of_an_underflowing_label_is_exact(self) -> None:
        sure = torch.tensor([[[200.0, 0.0]]])
        assert float(metrics.nll(predictive(Categorical(), sure), torch.tensor([1]))) == 200

    @pytest.mark.parametrize("metric", OF_NUMBERS)
    def test_of_numbers(self, metric: Callable[..., Any]) -> None:
        noisy = predictive(HeteroscedasticGaussian(), torch.cat([MEAN, 2 * STD.log()], -1))
        assert_same(metric(noisy, TARGET), metric(Normal(MEAN, STD), TARGET))
        known = predictive(Gaussian(4.0), MEAN)
        assert_same(metric(known, TARGET), metric(Normal(MEAN, 0.5), TARGET))
        assert_same(metric(predictive(Point(), MEAN), TARGET), metric(MEAN, TARGET))

    def test_log_likelihood_and_rmse(self) -> None:
        p = predictive(Gaussian(4.0), MEAN)
        assert_same(metrics.lppd(p, TARGET), metrics.lppd(Normal(MEAN, 0.5), TARGET))
        assert_same(metrics.rmse(p, TARGET), metrics.rmse(MEAN.mean(0), TARGET))
        assert_same(metrics.rmse(Normal(MEAN, STD), TARGET), metrics.rmse(MEAN.mean(0), TARGET))
        assert_same(metrics.lppd(predictive(Categorical(), LOGITS), ANSWER),
                    -metrics.nll(predictive(Categorical(), LOGITS), ANSWER))  # fmt: skip

    def test_the_interval_is_that_of_the_predictive(self) -> None:
        p = predictive(Gaussian(4.0), MEAN)
        for metric in (metrics.interval_coverage, metrics.interval_score):
            found = metric(p, TARGET, level=0.7)
            assert_same(found, metric(p.interval(0.7), TARGET, level=0.7))

    def test_of_scores_and_items(self) -> None:
        p = predictive(Categorical(), LOGITS)
        assert_same(
            metrics.separation(p, p.entropy + 1), metrics.separation(p.entropy, p.entropy + 1)
        )
        items = torch.randn(3, *HELD_OUT.shape, generator=seeded(22))
        ranked = predictive(Multinomial(), items)
        for metric in (metrics.recall_at, metrics.ndcg_at):
            assert_same(metric(ranked, HELD_OUT, 5), metric(items.softmax(-1).mean(0), HELD_OUT, 5))

    def test_draws_that_are_not_kept(self) -> None:
        net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 2)).eval()
        x = torch.randn(30, 4, generator=seeded(25))
        p = dubio.predict(net, x, draws=5, likelihood=Categorical(), keep_draws=False)
        assert_same(metrics.nll(p, ANSWER % 2), metrics.nll(p.mean, ANSWER % 2))
        q = dubio.predict(net, x, draws=5, likelihood=Gaussian(1.0), keep_draws=False)
        assert metrics.lppd(q, x[:, :2]).isfinite()
        with pytest.raises(ValueError, match="call predict with keep_draws=True"):
            metrics.crps(q, x[:, :2])

    @pytest.mark.parametrize("score", ["mutual_information", "variation_ratio"])
    def test_other_scores_than_entropy(self, score: str) -> None:
        p = predictive(Categorical(), LOGITS)
        doubt = getattr(p, score)
        wrong = (p.mean.argmax(1) != ANSWER).double()
        expected = metrics.risk_coverage_of(doubt, wrong)
        assert_same(metrics.risk_coverage(p, ANSWER, uncertainty=doubt), expected)
        curve = metrics.pavgpu(p, ANSWER, uncertainty=doubt)
        assert float(curve.threshold[-1]) == float(doubt.max())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
class TestPrecision:
    @pytest.mark.parametrize("metric", OF_LABELS)
    def test_of_probabilities(self, metric: Callable[..., Any], dtype: torch.dtype) -> None:
        p = torch.eye(4).repeat(8, 1)[:30] / 2 + 1 / 8  # exact in all of them
        found = metric(p.to(dtype), ANSWER)
        assert_same(found, metric(p, ANSWER), 0)
        parts = found if isinstance(found, tuple) else (found,)
        assert all(part.dtype == torch.float64 for part in parts)

    def test_of_rounded_sums(self, dtype: torch.dtype) -> None:
        p = torch.randn(50, 1000, generator=seeded(23)).softmax(1)
        y = torch.randint(1000, (50,), generator=seeded(24))
        assert_same(metrics.nll(p.to(dtype), y), metrics.nll(p, y), 1e-2)

    @pytest.mark.parametrize("metric", OF_NUMBERS)
    def test_of_draws(self, metric: Callable[..., Any], dtype: torch.dtype) -> None:
        x, y = MEAN.to(dtype), TARGET.to(dtype)
        assert_same(metric(x, y), metric(x.double(), y.double()), 0)


PROBABILITIES, SEVEN = torch.full((3, 2), 0.5), torch.full((3,), 7)
LABEL = torch.tensor([0, 1, 1])


class TestMistakes:
    @pytest.mark.parametrize("metric", OF_LABELS)
    @pytest.mark.parametrize(
        ("p", "y", "message"),
        [
            (torch.ones(0, 2), LABEL[:0], r"prediction: expected at least one row, got .*\(0, 2\)"),
            (PROBABILITIES, LABEL[:0], "target: expected at least one row"),
            (PROBABILITIES * 1.2, LABEL, "that sum to 1 along dimension 1, got sums from 1.2"),
            (PROBABILITIES.log() * 3, LABEL, "expected probabilities, got logits.*softmax"),
            (PROBABILITIES.log(), LABEL, r"got log-probabilities, values from -0.69.*exp\(\)"),
            (PROBABILITIES * torch.nan, LABEL, "prediction: expected numbers, got 6 NaN among 6"),
            (PROBABILITIES, SEVEN, "labels from 0 to 1, got 7; relabel, or pass void="),
            (PROBABILITIES, -LABEL, "labels from 0 to 1, got -1"),
            (PROBABILITIES, LABEL[:2], r"target: expected shape \(3,\).*got \(2,\)"),
            (PROBABILITIES, LABEL.float(), "expected integer class labels, got torch.float32"),
            (PROBABILITIES[:, 0], LABEL, r"one probability of yes becomes torch.stack"),
            (PROBABILITIES.long(), LABEL, "floating-point numbers, got torch.int64"),
        ],
    )
    def test_of_labels(
        self, metric: Callable[..., Any], p: Tensor, y: Tensor, message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            metric(p, y)

    @pytest.mark.parametrize("metric", [*OF_LABELS, *OF_MAPS])
    def test_nothing_but_void(self, metric: Callable[..., Any]) -> None:
        classes = (2,) if metric in OF_MAPS else ()
        with pytest.raises(ValueError, match="at least one case, got none"):
            metric(PROBABILITIES, SEVEN, *classes, void=7)

    @pytest.mark.parametrize("metric", [*OF_NUMBERS, metrics.rmse, metrics.lppd])
    def test_of_numbers(self, metric: Callable[..., Any]) -> None:
        holes = TARGET.clone()
        holes[3, 1] = torch.nan
        for target, message in (
            (holes, "target: expected numbers, got 1 NaN"),
            (TARGET[:0], "target: expected at least one row"),
            (TARGET[:, :1], "prediction.*expected"),
            (TARGET.long(), "target: expected floating-point numbers"),
        ):
            with pytest.raises(ValueError, match=message):
                metric(Normal(MEAN, STD), target)
        if metric is not metrics.rmse:  # which takes points
            with pytest.raises(
                (ValueError, TypeError), match=r"prediction: expected (draws|a dens)"
            ):
                metric(MEAN[0], TARGET)

    def test_draws_have_no_density(self) -> None:
        with pytest.raises(TypeError, match="expected a density, got draws"):
            metrics.lppd(MEAN, TARGET)

    def test_a_pair_is_a_gaussian(self) -> None:
        mean, std = MEAN[0], STD[0]
        for metric in (metrics.rmse, metrics.lppd, metrics.crps, metrics.quantile_calibration_rmse):
            assert metric((mean, std), TARGET) == metric(Normal(mean, std), TARGET)
        with pytest.raises(ValueError, match="prediction, the standard deviation: expected shape"):
            metrics.crps((mean, std[:5]), TARGET)
        with pytest.raises(TypeError, match="expected a distribution, got an Interval"):
            metrics.crps(metrics.Interval(mean, std), TARGET)
        with pytest.raises(TypeError, match="got an Interval; pass the prediction itself"):
            dubio.calibrate.VarianceScaling().fit(metrics.Interval(mean, std), TARGET)
        for metric in (metrics.interval_coverage, metrics.interval_score):
            with pytest.raises(TypeError, match=r"got a plain tuple; a pair is \(mean, std\) else"):
                metric((mean, std), TARGET)

    def test_other_likelihoods(self) -> None:
        with pytest.raises(TypeError, match="expected classes, got Gaussian"):
            metrics.nll(predictive(Gaussian(1.0), MEAN), TARGET)
        with pytest.raises(TypeError, match="expected real targets, got Categorical"):
            metrics.crps(predictive(Categorical(), LOGITS), LOGITS[0])
        with pytest.raises(TypeError, match="expected real targets, got Categorical"):
            metrics.crps(predictive(Categorical(), LOGITS), Y)  # not one about the labels

    @pytest.mark.parametrize("metric", OF_LABELS)
    def test_draws_are_averaged_first(self, metric: Callable[..., Any]) -> None:
        with pytest.raises(ValueError, match=r"as of draws .*the Predictive itself.*mean\(0\)"):
            metric(LOGITS, Y)

    @pytest.mark.parametrize("metric", [*OF_NUMBERS, metrics.rmse, metrics.lppd])
    def test_distributions_in_closed_form(self, metric: Callable[..., Any]) -> None:
        x, y = TARGET.numpy(), TARGET[:, 0]
        p = dubio.BayesianDropoutRegression().fit(x, y.numpy()).predictive(x)
        with pytest.raises(
            TypeError, match=r"Normal or a tensor, got StudentTMixture; .*sample\(1000\)"
        ):
            metric(p, y)
        metrics.rmse(torch.as_tensor(p.mean), y)
        metrics.crps(torch.as_tensor(p.sample(1000)), y)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: metrics.ece(P, Y, bins=0), "bins: expected a whole number, .* got 0"),
            (lambda: metrics.ece(P, Y, bins="a"), "bins: expected a whole number, .* got 'a'"),
            (lambda: metrics.interval_score(MEAN, TARGET, level="a"), "level: expected a prob"),
            (lambda: metrics.ClasswiseECE(3).update(P, Y), "expected 3 classes, got 4"),
            (lambda: metrics.mean_iou(P, Y, 3), "expected 3 classes, got 4"),
            (lambda: metrics.mean_iou(Y + 1, Y, 4), "prediction: expected class labels"),
            (lambda: metrics.crps(MEAN[:1], TARGET, fair=True), "fair: expected two or more"),
            (lambda: metrics.crps(Normal(MEAN, STD), TARGET[:, :1]), "prediction, one draw of it"),
            (lambda: metrics.crps(Normal(MEAN, 0.0, validate_args=False), TARGET), "> 0, got 0"),
            (lambda: metrics.interval_score(MEAN, TARGET, level=95), "level: expected a prob"),
            (lambda: metrics.interval_coverage(UPSIDE_DOWN, TARGET), "120 intervals up"),
            (lambda: metrics.interval_coverage(TOO_FEW, TARGET), "end of the"),
            (lambda: metrics.quantile_calibration(MEAN, TARGET, levels=0), "levels: expected"),
            (lambda: metrics.quantile_calibration(MEAN, TARGET, levels=2.5), "levels: .* got 2.5"),
            (lambda: metrics.quantile_calibration(MEAN, TARGET, levels=STD), "levels: .* got tens"),
            (lambda: metrics.QuantileCalibration(levels=2.5), "levels: .* got 2.5"),
            (lambda: metrics.crps(MEAN / 0, TARGET), "prediction: expected finite numbers"),
            (lambda: metrics.crps(Normal(MEAN / 0, 1.0), TARGET), "prediction: expected finite"),
            (lambda: metrics.pavgpu(P, Y, points=1), "points: expected a whole .* at least 2"),
            (lambda: metrics.pavgpu(P, Y, points=2.5), "points: expected a whole .* got 2.5"),
            (lambda: metrics.pavgpu(P, Y, bounds=(1.0, 0.0)), "bounds: .*smallest, largest"),
            (lambda: metrics.pavgpu(P, Y, bounds=(0.0, math.inf)), "bounds: expected finite"),
            (lambda: metrics.pavgpu(P, Y, bounds=(-math.inf, 1.0)), "bounds: expected finite"),
            (lambda: metrics.pavgpu(P, Y, bounds=(0.0, math.nan)), "bounds: expected finite"),
            (lambda: metrics.PAvgPU(bounds=(0.0, math.inf)), "bounds: expected finite"),
            (lambda: metrics.pavgpu(P, Y, bounds=(0.0, 1.0), ranks=True), "bounds: expected none"),
            (lambda: metrics.PAvgPU(bounds=(0.0, 1.0), ranks=True), "bounds: expected none"),
            (lambda: metrics.calibration_rmse(P, Y, bins=0), "bins: expected a whole number"),
            (lambda: metrics.CalibrationRMSE(bins=0), "bins: expected a whole number"),
            (lambda: metrics.error_detection(P, Y, recall=95), "recall: expected a share"),
            (lambda: metrics.ErrorDetection(recall=0), "recall: expected a share"),
            (lambda: metrics.error_detection(P, Y, uncertainty=P), "uncertainty: expected shape"),
            (lambda: metrics.error_detection(P, Y * 0 + 9, void=9), "at least one case, got none"),
            (lambda: metrics.pavgpu(P, Y, window=0), "window: expected a whole number"),
            (lambda: metrics.pavgpu(P, Y, window=1.5), "window: expected a whole number"),
            (lambda: metrics.pavgpu(P, Y, stride=0.5), "stride: expected a whole number"),
            (lambda: metrics.certainty(P, Y, threshold=math.nan), "threshold: .* got nan"),
            (lambda: metrics.certainty(P, Y, threshold="median"), "threshold: .* got 'median'"),
            (lambda: metrics.pavgpu(P, Y, window=2), r"expected patches of images \(B, H, W\)"),
            (lambda: metrics.pavgpu(P, Y, uncertainty=P), "uncertainty: expected shape"),
            (lambda: metrics.aurc(P, Y, uncertainty=Y / 0), "uncertainty: expected finite"),
            (lambda: metrics.risk_coverage(P, Y).accuracy_at(0), "coverage: expected a share"),
            (lambda: metrics.risk_coverage_of(P, Y), "loss: expected shape"),
            (lambda: metrics.separation(P, P, recall=95), "recall: expected a share"),
            (lambda: metrics.separation(P * torch.nan, P), "inside: expected numbers, got 240 NaN"),
            (lambda: metrics.separation(P, P[:0]), "outside: expected at least one row"),
            (lambda: metrics.recall_at(P, HELD_OUT, 5), "held_out: expected shape"),
            (lambda: metrics.recall_at(P[0], P[0] > 0, 5), r"scores \(users, items\)"),
            (lambda: metrics.ndcg_at(P, P > 0, 0), "cutoff: expected a whole number, at least 1"),
            (lambda: metrics.ndcg_at(P, P > 0, 2, fold_in=P > 0), "got .* in both; split them"),
            (lambda: metrics.recall_at(P, P > 2, 5), "at least one case, got none"),
        ],
    )  # fmt: skip
    def test_arguments(self, call: Callable[[], Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            call()

    def test_arrays(self) -> None:
        with pytest.raises(TypeError, match=r"prediction: expected a tensor, got ndarray"):
            metrics.nll(P.numpy(), Y)  # type: ignore[arg-type]

    @pytest.mark.filterwarnings("ignore:The ``compute`` method:UserWarning")
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_nothing_was_added(self, case: Case) -> None:
        with pytest.raises(ValueError, match="expected at least one case, got none"):
            case.metric().compute()


def test_the_core_does_without_torchmetrics() -> None:
    program = """
import sys
sys.modules["torchmetrics"] = None  # as if it were not installed
import dubio
try:
    dubio.metrics
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'dubio[metrics]'" in done.stdout


def test_logits_with_gradients_get_an_error_and_no_warning() -> None:
    logits = torch.randn(8, 3, requires_grad=True)
    with pytest.raises(ValueError, match="expected probabilities, got logits"):
        metrics.ece(logits, torch.zeros(8, dtype=torch.long))
