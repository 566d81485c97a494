"""The predictive and the draws of weights against scipy's Student t."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

from dubio.regression import BayesianDropoutRegression, StudentTMixture
from dubio.regression.prior import FloatArray

FALSE_ALARMS = 1e-6  # of each statistical test


def mixture(masks: int, freedom: float = 5.0, event: tuple[int, ...] = ()) -> StudentTMixture:
    rng = np.random.default_rng(0)
    shape = (masks, 6, *event)
    location, scale = rng.normal(size=shape), rng.uniform(0.5, 2, shape)
    return StudentTMixture(freedom, location, scale, location.mean(0), scale[0], scale[0])


def data(rows: int = 12, features: int = 4, outputs: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(1)
    X = rng.normal(1.0, 1.0, (rows, features))
    targets = X @ rng.normal(size=(features, outputs) if outputs else features)
    return X, targets + rng.normal(size=targets.shape)


class TestStudentT:
    @pytest.mark.parametrize("event", [(), (3,)])
    @pytest.mark.parametrize("masks", [1, 7])
    def test_log_prob(self, masks: int, event: tuple[int, ...]) -> None:
        p = mixture(masks, event=event)
        y = np.random.default_rng(2).normal(size=(6, *event))
        densities = stats.t.pdf(y, 5, p.location, p.scale)
        joint = densities.reshape(masks, 6, -1).prod(-1)
        np.testing.assert_allclose(p.log_prob(y), np.log(joint.mean(0)), rtol=1e-10)

    @pytest.mark.parametrize("freedom", [0.7, 5.0, 200.0])
    def test_quantiles_of_one(self, freedom: float) -> None:
        p = mixture(1, freedom)
        levels = [0.0, 1e-6, 0.3, 0.5, 0.9, 1 - 1e-6, 1.0]
        expected = [stats.t.ppf(level, freedom, p.location[0], p.scale[0]) for level in levels]
        np.testing.assert_allclose(p.quantile(levels), expected, rtol=1e-8)
        low, high = p.interval(0.9)
        np.testing.assert_allclose(stats.t.cdf(high, freedom, p.location, p.scale), 0.95)
        np.testing.assert_allclose(stats.t.cdf(low, freedom, p.location, p.scale), 0.05)

    @pytest.mark.parametrize("level", [1e-7, 0.2, 0.5, 0.77, 1 - 1e-7])
    def test_quantiles_of_a_mixture_invert_its_distribution(self, level: float) -> None:
        p = mixture(9, event=(2,))
        below = stats.t.cdf(p.quantile(level), 5, p.location, p.scale).mean(0)
        np.testing.assert_allclose(below, level, rtol=1e-6 if level < 0.5 else 1e-12)

    def test_samples_follow_the_mixture(self) -> None:
        p = mixture(4)
        samples = p.sample(5000, random_state=0)
        assert samples.shape == (5000, 6)
        for row in range(6):
            found = stats.kstest(
                samples[:, row],
                lambda y, row=row: np.mean(
                    [stats.t.cdf(y, 5, p.location[s, row], p.scale[s, row]) for s in range(4)], 0
                ),
            )
            assert found.pvalue > FALSE_ALARMS / 6
        np.testing.assert_array_equal(samples, p.sample(5000, random_state=0))

    def test_wrong_arguments(self) -> None:
        p = mixture(2)
        with pytest.raises(ValueError, match=r"q: expected levels in \[0, 1\], got 95"):
            p.quantile(95)
        with pytest.raises(ValueError, match="level: expected a probability"):
            p.interval(95)
        with pytest.raises(ValueError, match=r"y: expected shape \(6,\), got \(6, 1\)"):
            p.log_prob(np.zeros((6, 1)))
        with pytest.raises(ValueError, match="y: expected numbers, got NaN"):
            p.log_prob(np.full(6, np.nan))


class TestPredictive:
    def test_names_and_shapes(self) -> None:
        X, y = data(outputs=3)
        model = BayesianDropoutRegression().fit(X, y)
        for draws in (0, 5):
            p = model.predictive(X[:4], draws=draws, random_state=0)
            assert p.location.shape == p.scale.shape == (max(draws, 1), 4, 3)
            for name in ("mean", "variance", "std", "epistemic", "aleatoric"):
                assert getattr(p, name).shape == (4, 3)
            assert p.quantile(0.5).shape == (4, 3)
            assert p.quantile([0.1, 0.5]).shape == (2, 4, 3)
            assert p.sample(2).shape == (2, 4, 3)
            assert p.log_prob(y[:4]).shape == (4,)
            np.testing.assert_allclose(p.mean, model.predict(X[:4]))
        assert repr(p) == "StudentTMixture(freedom=11, masks=5, mean=(4, 3))"

    def test_the_variance_is_that_of_the_student(self) -> None:
        X, y = data()
        p = BayesianDropoutRegression().fit(X, y).predictive(X)
        expected = stats.t.var(p.freedom, p.location[0], p.scale[0])
        np.testing.assert_allclose(p.variance, expected)
        np.testing.assert_allclose(p.aleatoric, p.aleatoric[0])

    @pytest.mark.parametrize("features", [4, 20])
    @pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
    def test_masks_keep_features_at_their_rate(
        self, features: int, stored: Callable[[FloatArray], Any]
    ) -> None:
        """Moments over many masks approach the exact ones: a z-test for each of 5 rows."""
        X, y = data(features=features)
        model = BayesianDropoutRegression(0.3, 0.5).fit(X, y)
        p = model.predictive(stored(X[:5]), draws=4000, random_state=0)
        threshold = stats.norm.isf(FALSE_ALARMS / 2 / 10)
        error = p.location.std(0) / np.sqrt(4000)
        assert (np.abs(p.location.mean(0) - p.mean) < threshold * error).all()
        second = p.scale**2 * p.freedom / (p.freedom - 2) + (p.location - p.mean) ** 2
        error = second.std(0) / np.sqrt(4000)
        assert (np.abs(second.mean(0) - p.variance) < threshold * error).all()
        assert (p.std > model.predictive(X[:5]).std).all()

    @pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix])
    @pytest.mark.parametrize("features", [4, 20])
    def test_sparse_rows(self, kind: type, features: int) -> None:
        X, y = data(features=features)
        X[X < 0.7] = 0
        dense = BayesianDropoutRegression().fit(X, y)
        thin = BayesianDropoutRegression().fit(kind(X), y)
        np.testing.assert_allclose(thin.predictive(kind(X)).std, dense.predictive(X).std)
        one = thin.predictive(kind(X), draws=3, random_state=0)
        np.testing.assert_allclose(one.variance, dense.predictive(X, draws=1).variance)
        assert len({tuple(draw) for draw in one.location}) == 3

    def test_a_seed_gives_the_same_masks_for_any_block(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X, y = data()
        model = BayesianDropoutRegression().fit(X, y)
        whole = model.predictive(X, draws=3, random_state=5)
        monkeypatch.setattr("dubio.regression.design.BLOCK", 8)
        parts = model.predictive(X, draws=3, random_state=5)
        np.testing.assert_allclose(parts.location, whole.location)
        np.testing.assert_allclose(parts.scale, whole.scale)

    def test_few_rows_have_no_variance(self) -> None:
        X, y = data(rows=3)
        p = BayesianDropoutRegression().fit(X, y).predictive(X, draws=1)
        assert p.freedom == 2
        assert np.isinf(p.std).all()
        assert np.isfinite(p.interval()).all()

    def test_targets_without_noise_have_no_density(self) -> None:
        X, _ = data()
        p = BayesianDropoutRegression().fit(X, np.full(12, 0.1)).predictive(X)
        np.testing.assert_allclose(p.mean, 0.1)
        assert (p.std == 0).all()
        with pytest.raises(ValueError, match="no density"):
            p.log_prob(np.full(12, 0.1))


class TestSampleWeights:
    @pytest.mark.parametrize("features", [4, 30])
    @pytest.mark.parametrize("outputs", [0, 2])
    def test_functions_follow_the_predictive(self, features: int, outputs: int) -> None:
        """x @ coef + intercept + noise is a draw from the Student t; KS over 3 rows and targets."""
        X, y = data(features=features, outputs=outputs)
        model = BayesianDropoutRegression(0.3, 0.5).fit(X, y)
        weights = model.sample_weights(4000, random_state=0)
        assert weights.coef.shape == (4000, *model.coef_.shape)
        assert weights.intercept.shape == weights.noise_variance.shape == (4000, *y.shape[1:])
        rng = np.random.default_rng(1)
        p = model.predictive(X[:3])
        noise = rng.normal(size=weights.intercept.shape) * np.sqrt(weights.noise_variance)
        for row in range(3):
            values = weights.coef @ X[row] + weights.intercept + noise
            values = (values - p.location[0, row]) / p.scale[0, row]
            for column in values.reshape(4000, -1).T:
                assert stats.kstest(column, stats.t(p.freedom).cdf).pvalue > FALSE_ALARMS / 12

    @pytest.mark.parametrize("features", [4, 30])
    def test_weights_are_multivariate_student(self, features: int) -> None:
        """Projections of w on any direction are Student t: KS on 5 directions."""
        X, y = data(features=features)
        model = BayesianDropoutRegression(0.3, 0.5, fit_intercept=False).fit(X, y)
        posterior = model.posterior_
        draws = model.sample_weights(4000, random_state=2)
        assert (draws.intercept == 0).all()
        directions = np.random.default_rng(3).normal(size=(5, features))
        moved = (draws.coef / posterior.prior.keep - posterior.mean[:, 0]) @ directions.T
        scale = np.sqrt(posterior.rate / posterior.shape * posterior.factor.quadratic(directions))
        for column in (moved / scale).T:
            assert stats.kstest(column, stats.t(12).cdf).pvalue > FALSE_ALARMS / 5
        found = stats.kstest(
            draws.noise_variance, stats.invgamma(posterior.shape, scale=posterior.rate[0]).cdf
        )
        assert found.pvalue > FALSE_ALARMS
