"""Herlau et al. 2022's posterior against enumerated masks, integration, and special cases."""

import numpy as np
import pytest
from scipy import optimize, sparse, stats
from sklearn.linear_model import Ridge

from dubio.regression import BayesianDropoutRegression, DropoutPosterior, DropoutPrior
from dubio.regression.design import make_design
from dubio.regression.factor import DualFactor, PrimalFactor
from dubio.regression.solver import Solver, iterate
from naive_regression import Array, Naive, all_masks, mean_squared_errors


def problem(rows: int, features: int, seed: int = 0, outputs: int = 0) -> tuple[Array, Array]:
    """Features with means and scales of their own, and noisy linear targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.normal(size=features), rng.uniform(0.3, 3, features), (rows, features))
    shape = (features, outputs) if outputs else (features,)
    targets = 2 + X @ rng.normal(size=shape)
    return X, targets + rng.normal(size=targets.shape)


def fitted(
    X: Array, y: Array, drop: float, precision: float, **options: object
) -> DropoutPosterior:
    return BayesianDropoutRegression(drop, precision, **options).fit(X, y).posterior_


def inverse_precision(posterior: DropoutPosterior) -> Array:
    """Λ⁻¹ from its quadratic forms alone."""
    eye = np.eye(len(posterior.mean))
    pairs = (eye[:, None] + eye[None]).reshape(-1, len(eye))
    single = posterior.factor.quadratic(eye)
    both = posterior.factor.quadratic(pairs).reshape(len(eye), len(eye))
    return (both - single[:, None] - single) / 2


class TestAgainstMasks:
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("rows", [9, 3])  # primal and dual
    def test_it_is_the_expectation_over_all_masks(self, rows: int, intercept: bool) -> None:
        """Minus twice the log of eq. 10 at unit variance and random weights, over all 2^D masks."""
        drop, precision = 0.3, 0.7
        X, y = problem(rows, 5)
        posterior = fitted(X, y, drop, precision, fit_intercept=intercept)
        rng = np.random.default_rng(7)
        weights, offsets = rng.normal(size=(20, 5)), rng.normal(size=20) * intercept
        enumerated = mean_squared_errors(X, y, weights, offsets, drop)
        enumerated += precision * np.square(weights).sum(1)

        moved = weights - posterior.mean[:, 0]
        ours = np.einsum("pd,de,pe->p", moved, np.linalg.inv(inverse_precision(posterior)), moved)
        ours += 2 * posterior.rate[0]
        if intercept:
            ours += rows * np.square(offsets - y.mean() + (1 - drop) * weights @ X.mean(0))
        np.testing.assert_allclose(ours, enumerated, rtol=1e-10)

    def test_eq_14_without_an_intercept(self) -> None:
        drop, precision = 0.4, 0.2
        X, y = problem(12, 4)
        gram = X.T @ X
        precisions = precision * np.eye(4) + drop * (1 - drop) * gram * np.eye(4)
        precisions += (1 - drop) ** 2 * gram
        mean = (1 - drop) * np.linalg.solve(precisions, X.T @ y)
        posterior = fitted(X, y, drop, precision, fit_intercept=False)
        np.testing.assert_allclose(posterior.mean[:, 0], mean, rtol=1e-12)
        np.testing.assert_allclose(np.linalg.inv(inverse_precision(posterior)), precisions)
        assert posterior.shape == 6  # n/2: Jeffreys' prior
        np.testing.assert_allclose(posterior.rate, (y @ y - mean @ precisions @ mean) / 2)

    @pytest.mark.parametrize("intercept", [True, False])
    def test_posterior_and_predictives_by_integration(self, intercept: bool) -> None:
        """One feature: eq. 10 on a grid over w, β and log σ², where Jeffreys' prior is flat."""
        drop, precision = 0.3, 0.5
        X, y = problem(7, 1, seed=3)

        def energy(point: Array) -> float:
            w, b = point[:1], point[1:] * intercept
            return float(mean_squared_errors(X, y, w[None], b, drop)[0] + precision * w @ w)

        center = optimize.minimize(energy, np.zeros(2), tol=1e-12).x
        # the integrand is smooth and vanishes at the ends: the trapezoid rule is exact to 1e-9
        log_variance = np.linspace(-5, 16, 300)
        steps = np.linspace(-9, 9, 61) if intercept else np.zeros(1)
        t, u, v = np.meshgrid(log_variance, np.linspace(-9, 9, 61), steps, indexing="ij")
        variance = np.exp(t)
        w = center[0] + np.sqrt(variance) * u / np.sqrt(X[:, 0] @ X[:, 0] / 4)
        b = (center[1] + np.sqrt(variance) * v) * intercept
        errors = mean_squared_errors(X, y, w.reshape(-1, 1), b.reshape(-1), drop).reshape(w.shape)
        logs = -(7 + 1) / 2 * t - (errors + precision * w**2) / (2 * variance)
        logs += t / 2 * (1 + intercept)  # from u, v to w, β
        density = np.exp(logs - logs.max())
        density /= density.sum()

        def expect(values: Array) -> float:
            return float((density * values).sum())

        model = BayesianDropoutRegression(drop, precision, fit_intercept=intercept).fit(X, y)
        posterior = model.posterior_
        assert expect(w) == pytest.approx(posterior.mean[0, 0], rel=1e-7)
        assert expect(b) == pytest.approx(model.intercept_, rel=1e-7, abs=1e-12)
        assert expect(variance) == pytest.approx(posterior.noise_variance[0], rel=1e-6)

        x, target = 1.7, 0.4
        row = np.array([[x]])

        def normal_density(mean: Array) -> Array:
            return stats.norm.pdf(target, mean, np.sqrt(variance))

        exact = model.predictive(row)
        assert np.log(expect(normal_density(b + (1 - drop) * x * w))) == pytest.approx(
            exact.log_prob([target])[0], rel=1e-7
        )
        assert exact.mean[0] == pytest.approx(model.predict(row)[0], rel=1e-12)
        assert expect(b + (1 - drop) * x * w) == pytest.approx(exact.mean[0], rel=1e-7)

        dropped = model.predictive(row, draws=50, random_state=0)
        kept = normal_density(b + x * w)
        gone = normal_density(b)
        share = (dropped.location[:, 0] == dropped.location[:, 0].max()).mean()
        share = share if posterior.mean[0, 0] > 0 else 1 - share
        assert 0 < share < 1
        assert np.log(expect(share * kept + (1 - share) * gone)) == pytest.approx(
            dropped.log_prob([target])[0], rel=1e-7
        )
        second = expect(variance + (1 - drop) * (b + x * w) ** 2 + drop * b**2)
        assert second - expect(b + (1 - drop) * x * w) ** 2 == pytest.approx(
            dropped.variance[0], rel=1e-6
        )


class TestModelsItContains:
    @pytest.mark.parametrize("rows", [30, 5])
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("weighted", [True, False])
    def test_without_dropout_the_mean_is_ridge(
        self, rows: int, intercept: bool, weighted: bool
    ) -> None:
        X, y = problem(rows, 8, outputs=2)
        weights = np.random.default_rng(1).uniform(0.2, 3, rows) if weighted else None
        ours = BayesianDropoutRegression(0.0, 2.5, fit_intercept=intercept)
        ours.fit(X, y, sample_weight=weights)
        ridge = Ridge(alpha=2.5, fit_intercept=intercept, solver="cholesky")
        ridge.fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(ours.coef_, ridge.coef_, rtol=1e-9)
        np.testing.assert_allclose(ours.intercept_, ridge.intercept_, rtol=1e-9)

    @pytest.mark.parametrize("rows", [20, 5])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_without_dropout_predictives_are_ratios_of_evidences(
        self, rows: int, intercept: bool
    ) -> None:
        """Bayes' theorem: p(y* | y) = p(y*, y) / p(y), row after row, for the conjugate model."""
        X, y = problem(rows + 1, 8)
        model = BayesianDropoutRegression(0.0, 0.8, fit_intercept=intercept)
        more = model.fit(X, y).evidence().log_marginal_likelihood
        less = model.fit(X[:-1], y[:-1]).evidence().log_marginal_likelihood
        log_prob = model.predictive(X[-1:]).log_prob(y[-1:])[0]
        assert log_prob == pytest.approx(more - less, rel=1e-9)

    def test_least_squares_is_the_limit_of_no_prior(self) -> None:
        X, y = problem(30, 4)
        model = BayesianDropoutRegression(0.0, 0.0).fit(X, y)
        design = np.column_stack([np.ones(30), X])
        expected = np.linalg.lstsq(design, y, rcond=None)[0]
        np.testing.assert_allclose([model.intercept_, *model.coef_], expected, rtol=1e-10)

    @pytest.mark.parametrize("rows", [30, 5])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_without_a_prior_the_scales_of_features_do_not_matter(
        self, rows: int, intercept: bool
    ) -> None:
        X, y = problem(rows, 8)
        scales = 10.0 ** np.arange(-4, 4)
        model = BayesianDropoutRegression(0.3, 0.0, fit_intercept=intercept)
        plain = model.fit(X, y).predictive(X)
        evidence = model.evidence()
        scaled = model.fit(X * scales, y).predictive(X * scales)
        np.testing.assert_allclose(scaled.mean, plain.mean, rtol=1e-9)
        np.testing.assert_allclose(scaled.std, plain.std, rtol=1e-9)
        assert model.evidence().log_marginal_likelihood == pytest.approx(
            evidence.log_marginal_likelihood, rel=1e-9
        )
        ridge = BayesianDropoutRegression(0.3, 1.0, fit_intercept=intercept)
        moved = ridge.fit(X, y).predict(X) - ridge.fit(X * scales, y).predict(X * scales)
        assert np.abs(moved).max() > 0.1  # a prior does care

    def test_strong_dropout_treats_each_feature_alone(self) -> None:
        """f → 1 and λ0 = 0: μ → Λ1⁻¹ Xᵀ y."""
        X, y = problem(30, 6)
        posterior = fitted(X, y, 1 - 1e-9, 0.0, fit_intercept=False)
        np.testing.assert_allclose(posterior.mean[:, 0], X.T @ y / (X**2).sum(0), rtol=1e-6)

    def test_averaged_stochastic_gradients_with_dropout_approach_the_mean(self) -> None:
        """SGD on (y − β − Σ z x w)² with fresh masks; its average tends to (μ, β) without bias.

        The gradient is affine in the weights, so the stationary mean at a fixed step is the
        minimiser. Chains are independent: Hotelling's T² over them, false alarms 1e-6.
        """
        chains, steps, drop, precision = 200, 6000, 0.4, 2.0
        X, y = problem(10, 3, seed=5)
        X /= X.std(0)
        model = BayesianDropoutRegression(drop, precision).fit(X, y)
        rng = np.random.default_rng(0)
        weights, average = np.zeros((chains, 4)), np.zeros((chains, 4))
        for step in range(steps):
            pick = rng.integers(10, size=chains)
            rows = X[pick] * (rng.random((chains, 3)) >= drop)
            rows = np.column_stack([np.ones(chains), rows])
            error = np.einsum("cd,cd->c", rows, weights) - y[pick]
            gradient = error[:, None] * rows
            gradient[:, 1:] += precision / 10 * weights[:, 1:]
            weights -= 0.05 * gradient
            if step >= steps // 2:  # by then the start is forgotten, to less than 1e-9
                average += weights / (steps - steps // 2)

        def distance(point: Array) -> float:
            """Hotelling's T² as an F statistic's p-value."""
            moved = average.mean(0) - point
            squared = chains * moved @ np.linalg.solve(np.cov(average.T), moved)
            return float(stats.f.sf(squared * (chains - 4) / (4 * (chains - 1)), 4, chains - 4))

        ours = np.concatenate([[model.intercept_], model.posterior_.mean[:, 0]])
        assert distance(ours) > 1e-6
        ridge = Ridge(alpha=precision).fit(X, y)
        assert distance(np.concatenate([[ridge.intercept_], ridge.coef_])) < 1e-12  # power


class TestSolvers:
    @pytest.mark.parametrize("shape", [(25, 6), (6, 25), (10, 10)])
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("stored", ["dense", "csr_array", "csc_matrix"])
    def test_all_agree(self, shape: tuple[int, int], intercept: bool, stored: str) -> None:
        X, y = problem(*shape, outputs=2)
        X[np.random.default_rng(2).random(X.shape) < 0.5] = 0
        weights = np.random.default_rng(3).uniform(0.1, 2, len(X))
        given = X if stored == "dense" else getattr(sparse, stored)(X)
        prior = DropoutPrior(0.25, 0.6)
        reference = PrimalFactor(dense := make_design(X, weights, intercept), prior)
        design = make_design(given, weights, intercept)
        targets, _ = dense.center_targets(y)
        np.testing.assert_allclose(design.squares, dense.squares)
        np.testing.assert_allclose(design.center, dense.center, atol=1e-15)
        u = np.random.default_rng(4).normal(size=(5, shape[1]))
        for factor in (PrimalFactor(design, prior), DualFactor(design, prior)):
            np.testing.assert_allclose(
                factor.mean(design, targets), reference.mean(dense, targets), rtol=1e-8, atol=1e-12
            )
            np.testing.assert_allclose(factor.quadratic(u), reference.quadratic(u), rtol=1e-9)
            np.testing.assert_allclose(factor.variances, reference.variances, rtol=1e-9)
            np.testing.assert_allclose(
                factor.determined, reference.determined, rtol=1e-8, atol=1e-12
            )
            assert factor.log_ratio == pytest.approx(reference.log_ratio, rel=1e-10)
        means, converged = iterate(design, targets, [DropoutPrior(0.5, 0.1), prior], 1e-12)
        assert converged.all()
        np.testing.assert_allclose(
            means[:, 1], reference.mean(dense, targets), rtol=1e-8, atol=1e-10
        )
        np.testing.assert_allclose(
            means[:, 0],
            PrimalFactor(dense, DropoutPrior(0.5, 0.1)).mean(dense, targets),
            rtol=1e-8,
            atol=1e-10,
        )

    @pytest.mark.parametrize("shape", [(40, 6), (6, 40)])
    def test_estimators_agree(self, shape: tuple[int, int]) -> None:
        X, y = problem(*shape)
        exact = BayesianDropoutRegression(solver="cholesky").fit(X, y)
        iterated = BayesianDropoutRegression(solver="cg", tol=1e-12).fit(X, y)
        np.testing.assert_allclose(iterated.coef_, exact.coef_, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(iterated.posterior_.rate, exact.posterior_.rate, rtol=1e-10)

    def test_auto_iterates_where_that_is_cheaper_and_factorises_when_asked(self) -> None:
        rng = np.random.default_rng(0)
        places = rng.integers(300, size=1200), rng.integers(2000, size=1200)
        X = sparse.coo_array((rng.random(1200), places), shape=(300, 2000)).tocsr()
        y = X @ rng.normal(size=2000)
        model = BayesianDropoutRegression().fit(X, y)
        assert not Solver("auto").factorises(
            make_design(X, np.ones(300), True), [DropoutPrior(0.2, 1)]
        )
        exact = BayesianDropoutRegression(solver="cholesky").fit(X, y)
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-6)
        ours, reference = model.predictive(X[:7]), exact.predictive(X[:7])
        np.testing.assert_allclose(ours.std, reference.std, rtol=1e-7)

    def test_auto_factorises_where_iterations_do_not_converge(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dubio.regression.solver._MOST_ITERATIONS", 2)
        monkeypatch.setattr("dubio.regression.solver._MATRIX_SPEED", 0)
        X, y = problem(30, 10)
        hasty = BayesianDropoutRegression().fit(X, y)
        exact = BayesianDropoutRegression(solver="cholesky").fit(X, y)
        np.testing.assert_allclose(hasty.coef_, exact.coef_)


class TestRounding:
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("ratio", [1e-6, 1e-10, 1e-12, 1e-14, 1e-16])
    @pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
    def test_weak_priors_with_more_features_than_rows(
        self, intercept: bool, ratio: float, stored: type
    ) -> None:
        """Against the singular values of the rows, of which a training row is a combination."""
        X, y = problem(20, 60)
        model = BayesianDropoutRegression(0.0, ratio * len(X), fit_intercept=intercept)
        new = problem(5, 60, seed=1)[0]
        predictive = model.fit(stored(X), y).predictive(np.concatenate([X, new]))

        center = X.mean(0) if intercept else np.zeros(60)
        left, values, right = np.linalg.svd(X - center, full_matrices=False)
        seen = values > 1e-10
        left, values, right = left[:, seen], values[seen], right[seen]
        shrunk = np.square(values) + model.prior_precision
        parts = (new - center) @ right.T
        outside = np.square(new - center - parts @ right).sum(1) / model.prior_precision
        spread = np.concatenate(
            [
                np.square(left * values) @ (1 / shrunk),
                np.square(parts) @ (1 / shrunk) + outside,
            ]
        )
        centred = y - y.mean() * intercept
        rate = (np.square(left.T @ centred) * model.prior_precision / shrunk).sum() / 2
        shape = (20 - intercept) / 2
        scale = np.sqrt(rate / shape * (1 + intercept / 20 + spread))
        np.testing.assert_allclose(model.posterior_.rate, rate, rtol=1e-6)
        np.testing.assert_allclose(predictive.scale[0], scale, rtol=1e-6)

    @pytest.mark.parametrize("rows", [50, 4])
    def test_sparse_rows_far_from_zero(self, rows: int) -> None:
        """Integers, so that moving them by 1e7 does not round."""
        rng = np.random.default_rng(0)
        X = rng.integers(-5, 6, size=(rows, 6)).astype(float)
        y = X @ np.arange(6) + rng.normal(size=rows)
        far = X + np.array([0, 1e7, 0, -1e7, 1e6, 0])
        reference = BayesianDropoutRegression(0.0, 1e-3).fit(X, y)
        for given in (far, sparse.csr_array(far)):
            for solver in ("auto", "cg"):
                model = BayesianDropoutRegression(0.0, 1e-3, solver=solver).fit(given, y)
                np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-6, atol=1e-6)
                if solver == "auto":
                    np.testing.assert_allclose(
                        model.predictive(given).std, reference.predictive(X).std, rtol=1e-6
                    )
                    assert model.evidence().log_marginal_likelihood == pytest.approx(
                        reference.evidence().log_marginal_likelihood, rel=1e-8
                    )

    @pytest.mark.parametrize("rows", [3, 10, 30, 100])
    @pytest.mark.parametrize("constant", [0.1, 0.3, 0.7, 1.1, 123.456, 0.0, 1e9])
    def test_targets_that_do_not_vary(self, rows: int, constant: float) -> None:
        X, _ = problem(rows, 2)
        weights = np.random.default_rng(1).uniform(0.5, 2, rows)
        for weight in (None, weights):
            model = BayesianDropoutRegression()
            model.fit(X, np.full(rows, constant), sample_weight=weight)
            assert model.posterior_.rate == 0
            assert model.intercept_ == constant
            with pytest.raises(ValueError, match="no density"):
                model.predictive(X).log_prob(np.full(rows, constant))


class TestRows:
    @pytest.mark.parametrize("features", [4, 30])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_a_weight_is_a_number_of_rows(self, features: int, intercept: bool) -> None:
        X, y = problem(8, features, outputs=2)
        counts = np.array([1, 0, 3, 2, 1, 1, 0, 5])
        model = BayesianDropoutRegression(0.3, 0.4, fit_intercept=intercept)
        weighted = model.fit(X, y, sample_weight=counts).predictive(X)
        evidence = model.evidence()
        repeated = model.fit(X.repeat(counts, 0), y.repeat(counts, 0)).predictive(X)
        assert weighted.freedom == repeated.freedom == counts.sum() - intercept
        np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-9)
        np.testing.assert_allclose(weighted.std, repeated.std, rtol=1e-9)
        for field in ("log_marginal_likelihood", "drop_gradient", "prior_precision_gradient"):
            assert getattr(evidence, field) == pytest.approx(
                getattr(model.evidence(), field), rel=1e-8
            )

    def test_targets_share_all_but_the_noise(self) -> None:
        X, y = problem(15, 4, outputs=3)
        y[:, 1] *= 100
        together = BayesianDropoutRegression().fit(X, y)
        predictive = together.predictive(X)
        total = 0.0
        for k in range(3):
            alone = BayesianDropoutRegression().fit(X, y[:, k])
            np.testing.assert_allclose(together.coef_[k], alone.coef_)
            np.testing.assert_allclose(together.intercept_[k], alone.intercept_)
            np.testing.assert_allclose(predictive.std[:, k], alone.predictive(X).std)
            total += alone.evidence().log_marginal_likelihood
        assert together.evidence().log_marginal_likelihood == pytest.approx(total)

    @pytest.mark.parametrize("rows", [15, 3])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_naive_algebra_with_the_intercept_as_a_coefficient(
        self, rows: int, intercept: bool
    ) -> None:
        X, y = problem(rows, 6)
        naive = Naive.fit(X, y, 0.35, 0.2, intercept)
        model = BayesianDropoutRegression(0.35, 0.2, fit_intercept=intercept).fit(X, y)
        predictive = model.predictive(X)
        locations, scales = np.transpose([naive.student(row, 0.65) for row in X])
        assert predictive.freedom == 2 * naive.shape
        np.testing.assert_allclose(predictive.location[0], locations, rtol=1e-9)
        np.testing.assert_allclose(predictive.scale[0], scales, rtol=1e-9)

    @pytest.mark.parametrize("rows", [15, 3])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_dropout_at_test_time_by_all_masks(self, rows: int, intercept: bool) -> None:
        drop = 0.35
        X, y = problem(rows, 5)
        naive = Naive.fit(X, y, drop, 0.2, intercept)
        model = BayesianDropoutRegression(drop, 0.2, fit_intercept=intercept).fit(X, y)
        predictive = model.predictive(X, draws=1, random_state=0)
        masks, probabilities = all_masks(5, drop)
        freedom = 2 * naive.shape
        for row, mean, variance in zip(X, predictive.mean, predictive.variance, strict=True):
            location, scale = np.transpose([naive.student(row, mask) for mask in masks])
            assert mean == pytest.approx(probabilities @ location, rel=1e-9)
            if freedom > 2:
                second = scale**2 * freedom / (freedom - 2) + location**2
                assert variance == pytest.approx(probabilities @ second - mean**2, rel=1e-9)
            else:
                assert np.isinf(variance)
