"""Likelihoods that were written by docs/write-a-likelihood.md alone: whatever fits takes them."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dubio
from dubio import calibrate, decide, metrics
from dubio.likelihoods import LabelLikelihood, Likelihood, Numeric
from dubio.predictive.predictive import Predictive, StoredDraws


@final
@dataclass(frozen=True)
class Gumbel(Numeric):
    """Largest values: outputs are D locations and then D log scales."""

    missing: Any = "error"

    def mean(self, outputs: Tensor) -> Tensor:
        location, log_scale = self._parts(outputs)
        return location + np.euler_gamma * log_scale.exp()

    def variance(self, outputs: Tensor) -> Tensor:
        return math.pi**2 / 6 * (2 * self._parts(outputs)[1]).exp()

    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        location, log_scale = self._parts(outputs)
        z = (y - location) / log_scale.exp()
        return -z - (-z).exp() - log_scale

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        location, log_scale = self._parts(outputs)
        return (-((location - y) / log_scale.exp()).exp()).exp()

    def with_mean(self, outputs: Tensor, mean: Tensor, scale: float) -> Tensor:
        log_scale = self._parts(outputs)[1].to(mean.dtype) + math.log(scale)
        return torch.cat([mean - np.euler_gamma * log_scale.exp(), log_scale], dim=-1)

    def rescaled(self, scale: float | Tensor) -> Likelihood:
        return self

    def _parts(self, outputs: Tensor) -> tuple[Tensor, ...]:
        return self._read(outputs).chunk(2, dim=-1)


@final
@dataclass(frozen=True)
class Geometric(Numeric):
    """Failures before the first success, whose logit is the output."""

    whole = True

    def mean(self, outputs: Tensor) -> Tensor:
        return (-self._read(outputs)).exp()

    def variance(self, outputs: Tensor) -> Tensor:
        mean = self.mean(outputs)
        return mean + mean.square()

    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        logit = self._read(outputs)
        return F.logsigmoid(logit) + y * F.logsigmoid(-logit)

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        at_least = y.floor() + 1
        found = -torch.expm1(at_least * F.logsigmoid(-self._read(outputs)))
        return found.where(at_least > 0, 0)


@final
@dataclass(frozen=True)
class Ordinal(LabelLikelihood):
    """P(y <= k) = sigmoid(c_k - f) for one output f a row."""

    thresholds: tuple[float, ...] = (-1.0, 0.0, 1.0)

    def log_by_label(self, outputs: Tensor) -> Tensor:
        cuts = torch.tensor(self.thresholds, dtype=torch.float64) - self._read(outputs).double()
        reached = F.pad(torch.sigmoid(cuts), (0, 1), value=1.0)
        return reached.diff(dim=-1, prepend=torch.zeros_like(reached[..., :1])).log()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def prediction(likelihood: Likelihood, width: int, rows: int = 60) -> tuple[Predictive, Tensor]:
    p = Predictive(likelihood, StoredDraws(0.5 * normal(3, rows, width)))
    return p, p.sample(1, torch.Generator().manual_seed(1))[0]


NUMBERS: list[tuple[Likelihood, int, Any]] = [
    (Gumbel(), 4, lambda f: scipy.stats.gumbel_r(f[..., :2], np.exp(f[..., 2:]))),
    (Geometric(), 2, lambda f: scipy.stats.geom(1 / (1 + np.exp(-f)), loc=-1)),
]
OF_NUMBERS = pytest.mark.parametrize(
    ("likelihood", "width", "scipys"), NUMBERS, ids=["Gumbel", "Geometric"]
)


@OF_NUMBERS
def test_the_toys_are_right(likelihood: Likelihood, width: int, scipys: Any) -> None:
    p, y = prediction(likelihood, width)
    other = scipys(p.draws.numpy())
    logs = (other.logpmf if likelihood.whole else other.logpdf)(y.numpy())
    np.testing.assert_allclose(likelihood.log_prob(p.draws, y), logs.sum(-1))
    np.testing.assert_allclose(p.cdf(y), other.cdf(y.numpy()).mean(0), atol=1e-12)
    np.testing.assert_allclose(p.aleatoric, other.var().mean(0), rtol=1e-9)


@OF_NUMBERS
def test_metrics_of_numbers(likelihood: Likelihood, width: int, scipys: Any) -> None:
    p, y = prediction(likelihood, width)
    scores = [
        metrics.RMSE(), metrics.LPPD(), metrics.CRPS(), metrics.CRPS(fair=True),
        metrics.IntervalCoverage(level=0.8), metrics.IntervalScore(),
        metrics.QuantileCalibrationRMSE(),
    ]  # fmt: skip
    for score in scores:
        score.update(p, y)
        assert bool(score.compute().isfinite()), score
    assert metrics.interval_coverage(p, y, level=0.999) > 0.9
    assert metrics.crps(p, y) < metrics.crps(p, y + 20)


@OF_NUMBERS
def test_intervals_and_deferral(likelihood: Likelihood, width: int, scipys: Any) -> None:
    p, y = prediction(likelihood, width)
    for make in (calibrate.StandardisedIntervals, calibrate.QuantileIntervals):
        found = make(0.2).fit(p, y)(p)
        assert (found.contains(y).double().mean(0) >= 0.8).all()
        assert metrics.interval_coverage(found, y) == found.contains(y).double().mean()
    decision = decide.Deferral("std", tolerance=50.0).fit_error_rate(p, y, 0.3)(p)
    assert decision.coverage > 0.5


def test_scaling() -> None:
    p, y = prediction(Gumbel(), 4)
    wrong = Predictive(Gumbel(), StoredDraws(p.draws + torch.tensor([0.0, 0.0, 1.5, 1.5])))
    scaled = calibrate.PrecisionScaling().fit(wrong, y)(wrong)
    torch.testing.assert_close(scaled.mean, wrong.mean)
    assert metrics.lppd(scaled, y) > metrics.lppd(wrong, y)
    spread = calibrate.VarianceScaling().fit(wrong, y)
    torch.testing.assert_close(spread(wrong).variance, spread.factor * wrong.variance)
    q, counts = prediction(Geometric(), 2)
    for make in (calibrate.PrecisionScaling, calibrate.VarianceScaling):
        with pytest.raises(TypeError, match=r"rescaled: not defined for Geometric\(.*\); .*"):
            make().fit(q, counts)(q)


def test_training_and_missing_targets() -> None:
    torch.manual_seed(0)
    x, y = normal(20, 3), normal(20, 2, seed=1)
    y[0, 0] = math.nan
    mask = dubio.masks.LearnableBernoulli(drop=0.2)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), dubio.Masked(nn.Linear(8, 4), mask)).double()
    elbo = dubio.ELBO(net, Gumbel(missing="ignore"), num_data=20)
    history = dubio.fit(elbo, (x, y), epochs=30, progress=False)
    assert history[-1].loss < history[0].loss
    p = dubio.predict(net, x, likelihood=Gumbel(missing="ignore"), draws=5)
    assert bool(metrics.crps(p, y).isfinite())


def test_labels() -> None:
    p, y = prediction(Ordinal(), 1, rows=200)
    f = p.draws[..., 0].numpy()
    reached = 1 / (1 + np.exp(f[..., None] - np.array([-1.0, 0.0, 1.0])))
    expected = np.diff(np.concatenate([0 * f[..., None], reached, 0 * f[..., None] + 1], -1))
    np.testing.assert_allclose(p.mean, expected.mean(0), rtol=1e-9)
    np.testing.assert_allclose(
        p.log_prob(y), np.log(expected.mean(0)[np.arange(200), y]), rtol=1e-9
    )
    np.testing.assert_allclose(p.entropy, scipy.stats.entropy(expected.mean(0), axis=-1), rtol=1e-9)
    scores = [
        metrics.Accuracy(), metrics.NLL(), metrics.Brier(), metrics.ECE(), metrics.ACE(),
        metrics.ClasswiseECE(4), metrics.AURC(), metrics.PAvgPU(),
    ]  # fmt: skip
    for score in scores:
        score.update(p, y)
        score.compute()
    scaled = calibrate.TemperatureScaling().fit(p, y)(p)
    assert metrics.nll(scaled, y) <= metrics.nll(p, y)
    for make in (calibrate.LeastAmbiguousSets, calibrate.AdaptiveSets):
        sets = make(0.2).fit(p, y, torch.Generator().manual_seed(0)) if make is (
            calibrate.AdaptiveSets
        ) else make(0.2).fit(p, y)  # fmt: skip
        assert sets(p).contains(y).double().mean() > 0.6
    for score in ("entropy", "mutual_information", "variation_ratio", "std"):
        decide.Deferral(score).fit_coverage(p, 0.7)(p)  # type: ignore[arg-type]
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    dubio.ELBO(net, Ordinal(), num_data=200)(torch.randn(200, 3), y).backward()


class Nothing(Likelihood):
    """Only what Python insists on."""

    def mean(self, outputs: Tensor) -> Tensor:
        return self._read(outputs)

    variance = log_prob = sample = quantile = mean  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("cdf", lambda p: p.cdf(p.mean)),
        ("cdf", lambda p: metrics.crps(p, p.mean)),
        ("cdf", lambda p: metrics.quantile_calibration(p, p.mean)),
        ("rescaled", lambda p: calibrate.PrecisionScaling().fit(p, p.mean)),
        ("rescaled", lambda p: calibrate.VarianceScaling().fit(p, p.mean + 1)(p)),
        ("entropy", lambda p: p.expected_entropy),
        ("statistics", lambda p: p.likelihood.statistics(p.draws, p.mean)),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(method: str, call: Any) -> None:
    p = Predictive(Nothing(), StoredDraws(normal(2, 6, 1).abs() + 1))
    with pytest.raises(TypeError, match=rf"^{method}.*: not defined for .*; implement it"):
        call(p)
