"""Likelihoods of numbers against scipy and torch.distributions, and mixtures of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from torch import Tensor, nn

import dubio
from dubio import likelihoods, metrics
from dubio.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    Laplace,
    LearnedGaussian,
    Likelihood,
    MultivariateGaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from dubio.likelihoods.incomplete_beta import incomplete_beta
from dubio.predictive.predictive import Predictive, StoredDraws


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A likelihood, and the same from scipy by the halves of its outputs."""

    likelihood: Likelihood
    reference: Callable[..., Any]
    targets: Tensor


COUNTED = torch.tensor([[0.0, 3.0], [1.0, 40.0], [2.0, 7.0], [150.0, 0.0]], dtype=torch.float64)
RATES = torch.tensor([63.9, 64.1, 900.0, 1e-9], dtype=torch.float64)
REAL = 3 * normal(4, 2, seed=9)
CASES = {
    "gaussian": Case(
        HeteroscedasticGaussian(), lambda f, s: scipy.stats.norm(f, np.exp(s / 2)), REAL
    ),
    "laplace": Case(Laplace(), lambda f, s: scipy.stats.laplace(f, np.exp(s)), REAL),
    "student": Case(StudentT(3.5), lambda f, s: scipy.stats.t(3.5, f, np.exp(s)), REAL),
    "heavy": Case(StudentT(1.5), lambda f, s: scipy.stats.t(1.5, f, np.exp(s)), REAL),
    "poisson": Case(Poisson(), lambda f, s: scipy.stats.poisson(np.exp(f)), COUNTED),
    "negative binomial": Case(
        NegativeBinomial(),
        lambda f, s: scipy.stats.nbinom(np.exp(s), np.exp(s) / (np.exp(s) + np.exp(f))),
        COUNTED,
    ),
}  # fmt: skip
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
INDEX = {id(case): name for name, case in CASES.items()}


def outputs(case: Case, draws: int = 3, rows: int = 4, seed: int = 0) -> Tensor:
    halves = 2 * normal(draws, rows, 4, seed=seed)
    return halves[..., :2] if isinstance(case.likelihood, Poisson) else halves


def reference(case: Case, given: Tensor) -> Any:
    f = given[..., :2].numpy()
    return case.reference(f, given[..., 2:].numpy())


@ALL
def test_moments_densities_and_levels(case: Case) -> None:
    f, y = outputs(case), case.targets
    one, other = case.likelihood, reference(case, f)
    np.testing.assert_allclose(one.mean(f), other.mean(), rtol=1e-12)
    np.testing.assert_allclose(one.variance(f), other.var(), rtol=1e-12)
    logs = (other.logpmf if one.whole else other.logpdf)(y.numpy())
    np.testing.assert_allclose(one.log_prob(f, y), logs.sum(-1), rtol=1e-9)
    for points in (y, y - 0.5, -y):
        np.testing.assert_allclose(one.cdf(f, points), other.cdf(points.numpy()), 1e-9, 1e-14)


@ALL
def test_entropy(case: Case) -> None:
    f, name = outputs(case), INDEX[id(case)]
    if name == "negative binomial":
        with pytest.raises(TypeError, match="entropy: not defined for NegativeBinomial"):
            case.likelihood.entropy(f)
        return
    if name == "poisson":
        f = torch.cat(
            [f, torch.tensor([63.9, 64.1, 900.0, 1e-9]).log().double().expand(3, 2, 4).mT]
        )
        logs = scipy.stats.poisson(f.exp().numpy()).logpmf(np.arange(2000)[:, None, None, None])
        expected = -(np.exp(logs) * logs).sum(0)
    else:
        expected = reference(case, f).entropy()
    np.testing.assert_allclose(case.likelihood.entropy(f), expected, rtol=1e-7, atol=1e-12)


@ALL
@pytest.mark.parametrize("q", [1e-6, 0.3, 1 - 1e-6])
def test_quantiles_of_one_draw_and_of_the_mixture(case: Case, q: float) -> None:
    f = outputs(case)
    one = case.likelihood
    np.testing.assert_allclose(
        one.quantile(f[:1], q), reference(case, f[0]).ppf(q), rtol=1e-9, atol=1e-12
    )
    found = one.quantile(f, q)
    other = reference(case, f)
    reached = other.cdf(found.numpy()).mean(0)
    if one.whole:
        before = other.cdf(found.numpy() - 1).mean(0)
        assert ((before < q) & (q <= reached + 1e-13)).all()
    else:
        np.testing.assert_allclose(reached, q, rtol=1e-8)


@ALL
def test_quantiles_at_the_ends(case: Case) -> None:
    f = outputs(case)
    assert (case.likelihood.quantile(f, 1.0) == math.inf).all()
    assert (case.likelihood.quantile(f, 0.0) == (0 if case.likelihood.whole else -math.inf)).all()


@ALL
def test_quantiles_of_a_row_do_not_depend_on_the_others(case: Case) -> None:
    f = outputs(case)
    whole = case.likelihood.quantile(f, 0.3)
    alone = torch.cat([case.likelihood.quantile(f[:, [b]], 0.3) for b in range(4)])
    assert torch.equal(whole, alone)


@ALL
def test_samples_have_the_distribution(case: Case) -> None:
    """20 000 samples at 2 places; both Kolmogorov-Smirnov tests of one case fail with 1e-7."""
    f = outputs(case, draws=1, rows=1)
    y = case.likelihood.sample(f.expand(20_000, *f.shape[1:]), torch.Generator().manual_seed(0))
    other = reference(case, f[0])
    for k in range(2):
        values = y[:, 0, k].numpy()
        if case.likelihood.whole:  # a uniform variable fills the jumps
            u = torch.rand(20_000, generator=torch.Generator().manual_seed(k)).numpy()
            low, high = other.cdf(np.stack([values - 1, values])[:, :, None])[..., k]
            levels = low + u * (high - low)
        else:
            levels = other.cdf(values[:, None])[:, k]
        assert scipy.stats.kstest(levels, "uniform").pvalue > 5e-8


@ALL
def test_gradients(case: Case) -> None:
    f = outputs(case).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: case.likelihood.log_prob(f, case.targets), f)


def integrated_crps(case: Case, f: Tensor, y: float) -> np.ndarray[Any, Any]:
    """Of the two elements of one row, by the trapezoid rule on a fine grid; a sum for counts."""
    if case.likelihood.whole:
        x = np.arange(3000.0)
        reached = reference(case, f).cdf(x[:, None, None, None]).mean(1)[:, 0]  # (X, 2)
        return ((reached - (y <= x)[:, None]) ** 2).sum(0)
    away = np.sinh(np.linspace(0, 30, 40_001))[:, None, None, None] / 1000
    low, high = (reference(case, f).cdf(y + sign * away).mean(1)[:, 0] for sign in (-1, 1))
    return np.trapezoid(low**2 + (1 - high) ** 2, away[:, 0, 0], axis=0)


@ALL
@pytest.mark.parametrize("y", [0.0, 7.0])
def test_crps_of_the_mixture(case: Case, y: float) -> None:
    f = 0.5 * outputs(case, rows=1, seed=4)
    p = Predictive(case.likelihood, StoredDraws(f))
    found = metrics.crps(p, torch.full((1, 2), y, dtype=torch.float64))
    assert float(found) == pytest.approx(integrated_crps(case, f, y).mean(), rel=5e-6)


@pytest.mark.parametrize("name", ["laplace", "poisson"])
def test_the_fair_score_leaves_out_pairs_of_a_draw_with_itself(name: str) -> None:
    """E|Y - y| and E|Y_t - Y_u| from 200 000 samples of each draw: an error of 6 sigma."""
    case = CASES[name]
    f = outputs(case, draws=2, rows=1) * 0.5
    y = torch.full((1, 2), 2.0, dtype=torch.float64)
    found = metrics.crps(Predictive(case.likelihood, StoredDraws(f)), y, fair=True)
    generator = torch.Generator().manual_seed(0)
    many = f.repeat_interleave(200_000, 1)
    draws = case.likelihood.sample(many, generator)  # (2, N, 2)
    error, pairs = (draws - y).abs(), (draws[0] - draws[1]).abs()
    samples = error.mean(0) - pairs / 2
    sigma = float(samples.std() / math.sqrt(samples.numel()))
    assert float(found) == pytest.approx(float(samples.mean()), abs=6 * sigma)


def test_wide_counts_are_integrated() -> None:
    """The sum over all counts, of a mean of 1100."""
    f = torch.tensor([[[7.0, -1.0]]], dtype=torch.float64)
    y = torch.tensor([[700.0]], dtype=torch.float64)
    found = metrics.crps(Predictive(NegativeBinomial(), StoredDraws(f)), y)
    size, mean = math.exp(-1.0), math.exp(7.0)
    k = np.arange(100_000)
    reached = scipy.stats.nbinom(size, size / (size + mean)).cdf(k)
    expected = ((reached - (k >= 700)) ** 2).sum()
    assert float(found) == pytest.approx(expected, rel=1e-4)


def test_gaussians_by_quadrature_have_the_closed_form() -> None:
    """The same mixture, read by its cdf, and in closed form."""
    from dubio.metrics.components import Components
    from dubio.metrics.forecasts import Mixture

    f, y = 2 * normal(30, 5, 4), normal(5, 2, seed=2)
    one = Components(HeteroscedasticGaussian(), f)
    other = Mixture(f[..., :2], (f[..., 2:] / 2).exp())
    for fair in (False, True):
        torch.testing.assert_close(one.crps(y, fair), other.crps(y, fair), rtol=1e-5, atol=1e-6)


def test_scalar_targets_are_those_with_a_dimension_of_one() -> None:
    f, y = normal(3, 4, 2), normal(4, seed=1)
    one, other = HeteroscedasticGaussian(scalar=True), HeteroscedasticGaussian()
    for name in ("mean", "variance", "entropy"):
        assert torch.equal(getattr(one, name)(f), getattr(other, name)(f)[..., 0]), name
    torch.testing.assert_close(one.log_prob(f, y), other.log_prob(f, y[:, None]))
    torch.testing.assert_close(one.cdf(f, y), other.cdf(f, y[:, None])[..., 0])
    torch.testing.assert_close(one.quantile(f, 0.3), other.quantile(f, 0.3)[..., 0])
    assert torch.equal(
        one.with_mean(f, 2 * one.mean(f), 3.0), other.with_mean(f, 2 * f[..., :1], 3)
    )
    with pytest.raises(
        ValueError, match=r"outputs: expected .* scalar=True, got shape \(3, 4, 4\)"
    ):
        one.mean(normal(3, 4, 4))


def test_gaussians_of_scalar_targets_carry_their_noise() -> None:
    f, y = normal(3, 4), normal(4, seed=1)
    joint, outputs = dubio.likelihoods.Gaussian(4.0).with_noise(f)
    expected = scipy.stats.norm(f.numpy(), 0.5).logpdf(y.numpy())
    np.testing.assert_allclose(joint.log_prob(outputs, y), expected, rtol=1e-12)


@ALL
def test_intervals_and_levels_in_metrics(case: Case) -> None:
    f, y = outputs(case), case.targets
    p = Predictive(case.likelihood, StoredDraws(f))
    low, high = p.interval(0.8)
    inside = ((low <= y) & (y <= high)).double().mean()
    assert metrics.interval_coverage(p, y, level=0.8) == inside
    given = metrics.Interval(low, high)
    torch.testing.assert_close(
        metrics.interval_score(p, y, level=0.8), metrics.interval_score(given, y, level=0.8)
    )
    torch.testing.assert_close(p.cdf(y), case.likelihood.cdf(f, y).mean(0))
    torch.testing.assert_close(metrics.lppd(p, y), p.log_prob(y).mean())


@pytest.mark.parametrize("name", ["student", "poisson", "negative binomial"])
def test_the_curve_of_targets_from_the_prediction_is_the_diagonal(name: str) -> None:
    """4000 targets of 19 levels: a deviation of 6 sigma has 1e-7 or less."""
    case = CASES[name]
    f = outputs(case, draws=2, rows=2000) * 0.7
    p = Predictive(case.likelihood, StoredDraws(f))
    y = p.sample(1, torch.Generator().manual_seed(2))[0]
    curve = metrics.quantile_calibration(p, y)
    sigma = math.sqrt(0.25 / 4000)
    assert float((curve.observed - curve.expected).abs().max()) < 6 * sigma


def test_incomplete_beta_is_scipys() -> None:
    a = torch.logspace(-3, 4, 15, dtype=torch.float64)[:, None, None]
    b = torch.logspace(-3, 4, 15, dtype=torch.float64)[:, None]
    x = torch.tensor([0.0, 1e-9, 1e-3, 0.1, 0.5, 0.77, 0.999, 1.0], dtype=torch.float64)
    expected = scipy.special.betainc(a.numpy(), b.numpy(), x.numpy())
    np.testing.assert_allclose(incomplete_beta(a, b, x, 1 - x), expected, rtol=1e-8, atol=1e-13)


class TestMultivariate:
    f = normal(3, 4, 9)  # three targets
    y = normal(4, 3, seed=1)
    likelihood = MultivariateGaussian()

    def torchs(self) -> Any:
        factor = torch.zeros(3, 4, 3, 3, dtype=torch.float64)
        for k in range(3):
            factor[..., k, k] = self.f[..., 3 + k].exp()
        factor[..., 1, 0], factor[..., 2, 0], factor[..., 2, 1] = self.f[..., 6:].unbind(-1)
        return torch.distributions.MultivariateNormal(self.f[..., :3], scale_tril=factor)

    def test_against_torch(self) -> None:
        other = self.torchs()
        torch.testing.assert_close(self.likelihood.mean(self.f), other.mean)
        torch.testing.assert_close(self.likelihood.variance(self.f), other.variance)
        torch.testing.assert_close(self.likelihood.covariance(self.f), other.covariance_matrix)
        torch.testing.assert_close(self.likelihood.log_prob(self.f, self.y), other.log_prob(self.y))
        torch.testing.assert_close(self.likelihood.entropy(self.f), other.entropy())

    def test_of_each_element(self) -> None:
        other = scipy.stats.norm(self.f[..., :3].numpy(), self.torchs().stddev.numpy())
        np.testing.assert_allclose(
            self.likelihood.cdf(self.f, self.y), other.cdf(self.y.numpy()), rtol=1e-10
        )
        found = self.likelihood.quantile(self.f, 0.2)
        np.testing.assert_allclose(other.cdf(found.numpy()).mean(0), 0.2, rtol=1e-9)

    def test_samples_have_the_covariance(self) -> None:
        """100 000 samples: the largest of 9 entries is off by 6 sigma at most."""
        f = self.f[:1, :1].expand(1, 100_000, 9)
        y = self.likelihood.sample(f, torch.Generator().manual_seed(0))[0]
        expected = self.torchs().covariance_matrix[0, 0]
        scale = expected.diagonal().sqrt()
        spread = scale[:, None] * scale * math.sqrt(2 / 100_000)
        assert ((y.T.cov() - expected).abs() < 6 * spread).all()

    def test_missing_elements_are_integrated_out(self) -> None:
        y = self.y.clone()
        y[0, 1] = y[1, 0] = y[1, 2] = math.nan
        y[2] = math.nan
        found = MultivariateGaussian(missing="ignore").log_prob(self.f, y)
        covariance = self.torchs().covariance_matrix
        for s in range(3):
            for b in range(4):
                known = ~y[b].isnan()
                if not known.any():
                    assert found[s, b] == 0
                    continue
                expected = scipy.stats.multivariate_normal(
                    self.f[s, b, :3][known], covariance[s, b][known][:, known]
                ).logpdf(y[b][known])
                assert float(found[s, b]) == pytest.approx(float(expected), rel=1e-9)

    def test_width(self) -> None:
        with pytest.raises(ValueError, match=r"D \+ D \(D \+ 1\) / 2.*5 for two, 9 for three"):
            self.likelihood.mean(torch.zeros(2, 3, 8))

    def test_one_target_is_a_gaussian(self) -> None:
        f, y = normal(3, 4, 2), normal(4, 1)
        log_variances = torch.cat([f[..., :1], 2 * f[..., 1:]], -1)
        expected = HeteroscedasticGaussian().log_prob(log_variances, y)
        torch.testing.assert_close(self.likelihood.log_prob(f, y), expected)


IGNORING: dict[str, tuple[Likelihood, int]] = {
    "gaussian": (Gaussian(2.0, missing="ignore"), 2),
    "learned": (LearnedGaussian(2.0, missing="ignore").double(), 2),
    "heteroscedastic": (HeteroscedasticGaussian(missing="ignore"), 4),
    "multivariate": (MultivariateGaussian(missing="ignore"), 5),
    "laplace": (Laplace(missing="ignore"), 4),
    "student": (StudentT(4.0, missing="ignore"), 4),
    "poisson": (Poisson(missing="ignore"), 2),
    "negative binomial": (NegativeBinomial(missing="ignore"), 4),
}
IGNORE = pytest.mark.parametrize(("likelihood", "width"), IGNORING.values(), ids=IGNORING)


def with_gaps(likelihood: Likelihood, rows: int = 6) -> Tensor:
    y = normal(rows, 2, seed=5)
    y = y.abs().round() if likelihood.whole else y
    y[0, 0] = y[1, 1] = math.nan
    y[2] = math.nan
    return y


@IGNORE
def test_missing_targets_add_nothing(likelihood: Likelihood, width: int) -> None:
    f, y = normal(3, 6, width).requires_grad_(), with_gaps(likelihood)
    logs = likelihood.log_prob(f, y)
    (gradient,) = torch.autograd.grad(logs.sum(), f)
    assert gradient.isfinite().all()
    assert (logs[:, 2] == 0).all()
    assert (gradient[:, 2] == 0).all()
    assert torch.equal(likelihood.known(y), ~y.isnan())  # type: ignore[arg-type]
    whole = y[3:]
    torch.testing.assert_close(logs[:, 3:], likelihood.log_prob(f[:, 3:], whole))
    if width == 4 or likelihood.gaussian or likelihood.whole:  # independent elements
        half = f[..., [1, 3]] if width == 4 else f[..., [1]]
        torch.testing.assert_close(logs[:, 0], likelihood.log_prob(half, y[:, 1:])[:, 0])


@IGNORE
def test_the_elbo_is_a_mean_over_rows_with_a_target(likelihood: Likelihood, width: int) -> None:
    x, y = normal(6, 3), with_gaps(likelihood)
    net = nn.Linear(3, width).double()
    elbo = dubio.ELBO(net, likelihood, num_data=5)
    loss = elbo(x, y)
    expected = -likelihood.log_prob(net(x)[None], y)[0].sum() / 5 - likelihood.log_prior() / 5
    torch.testing.assert_close(loss, expected.to(loss))
    dubio.fit(elbo, (x, y), epochs=1, progress=False)


@IGNORE
def test_metrics_leave_them_out(likelihood: Likelihood, width: int) -> None:
    likelihood = likelihood.frozen()
    f, y = normal(3, 6, width), with_gaps(likelihood)
    p = Predictive(likelihood, StoredDraws(f))
    known = ~y.isnan()
    filled = y.where(known, 0)
    assert metrics.rmse(p, y) == (p.mean - filled)[known].square().mean().sqrt()
    rows = known.any(1)
    torch.testing.assert_close(metrics.lppd(p, y), p.log_prob(y)[rows].mean())
    for metric, parts in ((metrics.CRPS, 9), (metrics.IntervalCoverage, 9)):
        of_all = metric()
        of_all.update(p, y)
        assert of_all.count == int(known.sum()) == parts - 1
    reached = p.cdf(filled)[known]
    if not likelihood.whole:
        curve = metrics.quantile_calibration(p, y, levels=4)
        expected = [(reached <= q).double().mean() for q in (0.2, 0.4, 0.6, 0.8)]
        torch.testing.assert_close(curve.observed, torch.stack(expected))


def test_a_learned_precision_counts_the_targets_of_each_output() -> None:
    likelihood = LearnedGaussian(torch.ones(2), missing="ignore").double()
    f, y = normal(3, 6, 2), with_gaps(likelihood)
    errors, counts = likelihood.statistics(f, y)
    known = ~y.isnan()
    assert counts.tolist() == known.sum(0).tolist()
    likelihood.maximise(errors.mean(0), counts)
    squares = (f - y).square()
    expected = [1 / squares[:, known[:, k], k].mean() for k in range(2)]
    torch.testing.assert_close(likelihood.noise_precision, torch.stack(expected))
    assert likelihood.frozen().missing == "ignore"


@pytest.mark.parametrize("kind", [Laplace, StudentT, Poisson, NegativeBinomial])
def test_nan_is_an_error_by_default(kind: Any) -> None:
    y = torch.tensor([[0.0, math.nan]])
    width = 2 if kind is Poisson else 4
    with pytest.raises(ValueError, match=r"y: expected numbers, got NaN; .*missing='ignore'"):
        kind().log_prob(torch.zeros(2, 1, width), y)
    with pytest.raises(ValueError, match="missing: expected 'error' or 'ignore', got 'drop'"):
        kind(missing="drop")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StudentT(1.0), "degrees: expected a finite number > 1"),
        (lambda: Laplace().mean(torch.zeros(2, 3, 5)), r"2 \* D\) with D locations and then D log"),
        (
            lambda: Poisson().log_prob(torch.zeros(1, 1, 1), torch.tensor([[1.5]])),
            "y: expected counts, whole numbers >= 0",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@IGNORE
def test_losses_of_many_networks_at_once(likelihood: Likelihood, width: int) -> None:
    """As a population computes them: by torch.vmap."""
    f = normal(3, 6, width)
    y = torch.stack([with_gaps(likelihood).roll(k, 0) for k in range(3)])
    found = torch.vmap(likelihood.losses)(f, y)
    expected = torch.stack([likelihood.losses(*pair) for pair in zip(f, y, strict=True)])
    torch.testing.assert_close(found, expected)


def test_infinite_targets_are_refused() -> None:
    outputs = torch.zeros(2, 3, 1)
    y = torch.tensor([[0.0], [torch.inf], [1.0]])
    for likelihood in (likelihoods.Gaussian(1.0), likelihoods.Gaussian(1.0, missing="ignore")):
        with pytest.raises(ValueError, match="expected finite numbers, got infinite ones"):
            likelihood.log_prob(outputs, y)


def test_whole_numbers_of_any_type_are_counts() -> None:
    outputs = torch.zeros(2, 3, 1)
    expected = likelihoods.Poisson().log_prob(outputs, torch.tensor([[0.0], [1.0], [1.0]]))
    for y in (torch.tensor([[0], [1], [1]]), torch.tensor([[False], [True], [True]])):
        assert torch.equal(likelihoods.Poisson().log_prob(outputs, y), expected)
