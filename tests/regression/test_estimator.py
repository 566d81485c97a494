"""The estimators as scikit-learn's users expect them."""

import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dubio
from dubio import BayesianDropoutRegression, BayesianDropoutRegressionCV
from dubio.regression.prior import FloatArray

ESTIMATORS = [
    BayesianDropoutRegression(),
    BayesianDropoutRegression(solver="cg"),
    BayesianDropoutRegression(fit_intercept=False, solver="cholesky"),
    BayesianDropoutRegression("evidence", "evidence"),
    BayesianDropoutRegressionCV((0.0, 0.3), (0.1, 1.0)),
]


def data(rows: int = 40, features: int = 5, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    return X, 3 + X @ rng.normal(size=features) + 0.5 * rng.normal(size=rows)


# some of its targets are without noise, where the evidence has no maximum
@pytest.mark.filterwarnings("ignore:.*where the evidence still grows")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


class TestEcosystem:
    def test_in_a_grid_search_over_a_pipeline(self) -> None:
        X, y = data()
        pipeline = make_pipeline(StandardScaler(), BayesianDropoutRegression())
        grid = {
            "bayesiandropoutregression__drop": [0.0, 0.2],
            "bayesiandropoutregression__prior_precision": [0.1, 10.0],
        }
        search = GridSearchCV(pipeline, grid).fit(X, y)
        assert search.best_score_ > 0.8
        assert cross_val_score(TransformedTargetRegressor(search), X, y).mean() > 0.8

    def test_data_frames_name_their_columns(self) -> None:
        X, y = data()
        frame = pd.DataFrame(X, columns=list("abcde"))
        model = BayesianDropoutRegression().fit(frame, pd.Series(y))
        assert list(model.feature_names_in_) == list("abcde")
        plain = BayesianDropoutRegression().fit(X, y)
        np.testing.assert_allclose(model.predictive(frame).std, plain.predictive(X).std)
        with pytest.raises(ValueError, match="feature names"):
            model.predictive(frame[list("edcba")])

    def test_behind_a_transformer_that_returns_frames(self) -> None:
        X, y = data()
        frame = pd.DataFrame(X, columns=list("abcde"))
        pipeline = make_pipeline(StandardScaler(), BayesianDropoutRegressionCV((0.2,), (0.1, 1.0)))
        pipeline.set_output(transform="pandas").fit(frame, y)
        assert list(pipeline[-1].feature_names_in_) == list("abcde")
        assert pipeline.score(frame, y) > 0.8

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
    @pytest.mark.parametrize("features", [5, 60])
    def test_pickles_and_clones(self, estimator: Any, features: int) -> None:
        X, y = data(features=features)
        model = clone(estimator).fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_allclose(again.predict(X), model.predict(X))
        if estimator.solver != "cg":
            np.testing.assert_allclose(again.predictive(X).std, model.predictive(X).std)
        np.testing.assert_allclose(clone(model).fit(X, y).coef_, model.coef_)

    def test_a_model_with_few_features_keeps_no_rows(self) -> None:
        X, y = data(rows=20_000)
        assert len(pickle.dumps(BayesianDropoutRegression().fit(X, y))) < 10_000

    def test_lists_and_integers(self) -> None:
        model = BayesianDropoutRegression(0, 1).fit([[1], [2], [4]], [1, 2, 4])
        assert model.predict([[3]]).shape == (1,)
        assert isinstance(model.intercept_, float)

    @pytest.mark.parametrize("targets", [1, 2])
    @pytest.mark.parametrize("stored", [np.asarray, sparse.csr_matrix])
    def test_standard_deviations_beside_the_mean(
        self, targets: int, stored: Callable[[FloatArray], Any]
    ) -> None:
        X, y = data()
        if targets == 2:
            y = np.stack([y, 10 * y], axis=1)
        model = BayesianDropoutRegression().fit(stored(X), y)
        mean, std = model.predict(stored(X), return_std=True)
        np.testing.assert_array_equal(mean, model.predict(stored(X)))
        p = model.predictive(stored(X))
        np.testing.assert_allclose(std**2, p.epistemic + p.aleatoric)
        assert std.shape == mean.shape == y.shape

    def test_importing_dubio_needs_no_extra(self) -> None:
        program = """
import sys
sys.modules["sklearn"] = None
import dubio
assert "scipy" not in sys.modules
assert "pandas" not in sys.modules
wanted = {"BayesianDropoutRegression": "regression", "DropoutRegressor": "sklearn"}
for name, extra in wanted.items():
    assert name in dir(dubio)
    try:
        getattr(dubio, name)
    except ImportError as error:
        assert f"pip install 'dubio[{extra}]'" in str(error), error
    else:
        raise SystemExit("no error")
"""
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_other_names_are_unknown(self) -> None:
        with pytest.raises(AttributeError, match="no attribute 'BayesianDropout'"):
            _ = dubio.BayesianDropout


class TestCrossValidation:
    @pytest.mark.parametrize("features", [4, 50])
    @pytest.mark.parametrize("stored", [np.asarray, sparse.csr_matrix])
    @pytest.mark.parametrize("solver", ["auto", "cg"])
    def test_the_path_is_that_of_single_fits(
        self, features: int, stored: Callable[[FloatArray], Any], solver: Any
    ) -> None:
        X, y = data(rows=20, features=features)
        X[np.abs(X) < 0.5] = 0
        y = np.stack([y, -(y**2)], axis=1)
        weights = np.random.default_rng(1).uniform(0.5, 2, 20)
        drops, precisions = np.array([0.1, 0.5]), (0.1, 1, 10)
        folds = KFold(4, shuffle=True, random_state=0)
        model = BayesianDropoutRegressionCV(drops, precisions, cv=folds, solver=solver, tol=1e-12)
        model.fit(stored(X), y, sample_weight=weights)
        assert model.mse_path_.shape == (2, 3, 4)
        for i, drop in enumerate(drops):
            for j, precision in enumerate(precisions):
                for k, (train, test) in enumerate(folds.split(X)):
                    single = BayesianDropoutRegression(drop, precision)
                    single.fit(X[train], y[train], sample_weight=weights[train])
                    squares = np.square(single.predict(X[test]) - y[test])
                    error = np.average(squares.mean(1), weights=weights[test])
                    assert model.mse_path_[i, j, k] == pytest.approx(error, rel=1e-7)
        i, j = np.unravel_index(model.mse_path_.mean(-1).argmin(), (2, 3))
        assert (model.drop_, model.prior_precision_) == (drops[i], precisions[j])
        assert type(model.drop_) is type(model.prior_precision_) is float
        best = BayesianDropoutRegression(model.drop_, model.prior_precision_)
        best.fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.coef_, best.coef_, rtol=1e-6, atol=1e-9)

    def test_in_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y = data(rows=20)
        whole = BayesianDropoutRegressionCV(solver="cg", cv=LeaveOneOut()).fit(X, y)
        monkeypatch.setattr("dubio.regression.cross_validation.BLOCK", 100)
        parts = BayesianDropoutRegressionCV(solver="cg", cv=LeaveOneOut()).fit(X, y)
        np.testing.assert_allclose(parts.mse_path_, whole.mse_path_, rtol=1e-5)


class TestSparse:
    @pytest.fixture
    def text(self) -> tuple[Any, FloatArray]:
        rng = np.random.default_rng(0)
        places = rng.integers(300, size=12_000), rng.integers(40_000, size=12_000)
        X = sparse.coo_array((rng.random(12_000), places), shape=(300, 40_000)).tocsr()
        return X, np.asarray(X @ rng.normal(size=40_000)) + rng.normal(size=300)

    @pytest.fixture
    def frugal(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Watches the memory: X dense would take 96 MB, its sparse form and vectors take few."""
        for module in ("design", "cross_validation"):
            monkeypatch.setattr(f"dubio.regression.{module}.BLOCK", 2**18)
        tracemalloc.start()
        yield
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 30e6

    @pytest.mark.usefixtures("frugal")
    @pytest.mark.parametrize("solver", ["auto", "cholesky", "cg"])
    def test_never_dense(self, text: tuple[Any, FloatArray], solver: Any) -> None:
        X, y = text
        model = BayesianDropoutRegression(0.2, 0.5, solver=solver).fit(X, y)
        assert model.predict(X).shape == (300,)
        if solver != "cg":
            model.predictive(X[:20], draws=2)
            model.evidence()
            model.sample_weights(3)

    @pytest.mark.usefixtures("frugal")
    def test_never_dense_in_cross_validation(self, text: tuple[Any, FloatArray]) -> None:
        X, y = text
        model = BayesianDropoutRegressionCV((0.1, 0.5), (0.1, 1.0, 10.0), cv=2).fit(X, y)
        assert model.mse_path_.shape == (2, 3, 2)

    @pytest.mark.parametrize("features", [3, 30])
    @pytest.mark.parametrize("stored", [np.array, sparse.csr_array])
    def test_later_writes_into_the_rows_do_not_matter(
        self, features: int, stored: Callable[[FloatArray], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dubio.regression.solver._MATRIX_SPEED", 0)  # a factor comes later
        X, y = data(rows=10, features=features)
        before = BayesianDropoutRegression().fit(X, y).predictive(X).std
        given = stored(X)
        model = BayesianDropoutRegression().fit(given, y)
        given *= 0
        np.testing.assert_allclose(model.predictive(X).std, before)

    def test_repeated_elements_add_up_and_stay(self) -> None:
        X, y = data(rows=10, features=3)
        halves = (X[:, None] * np.array([[0.25], [0.75]])).ravel()  # each element in two parts
        columns = np.tile(np.arange(3), 20)
        twice = sparse.csr_array((halves, columns, np.arange(0, 61, 6)), shape=X.shape)
        model = BayesianDropoutRegression().fit(twice, y)
        plain = BayesianDropoutRegression().fit(X, y)
        np.testing.assert_allclose(model.coef_, plain.coef_)
        given = model.predictive(twice, draws=1, random_state=0)
        np.testing.assert_allclose(given.variance, plain.predictive(X, draws=1).variance)
        assert twice.nnz == 60  # the caller's matrix is as it was


class TestBadInput:
    @pytest.mark.parametrize("drop", [-0.1, 1.0, 1.5, np.nan])
    def test_rates(self, drop: float) -> None:
        with pytest.raises(ValueError, match=r"drop: expected a rate in \[0, 1\)"):
            BayesianDropoutRegression(drop).fit(*data())
        with pytest.raises(ValueError, match=r"drop: expected a rate in \[0, 1\)"):
            BayesianDropoutRegressionCV((0.1, drop)).fit(*data())

    @pytest.mark.parametrize("precision", [-1.0, np.inf, np.nan])
    def test_precisions(self, precision: float) -> None:
        with pytest.raises(ValueError, match="prior_precision: expected a finite number >= 0"):
            BayesianDropoutRegression(0.1, precision).fit(*data())
        with pytest.raises(ValueError, match="prior_precision: expected a finite number >= 0"):
            BayesianDropoutRegression("evidence", precision).fit(*data())

    @pytest.mark.parametrize("value", ["cv", None, [0.1, 0.2], True])
    def test_values_that_are_no_numbers(self, value: Any) -> None:
        with pytest.raises(TypeError, match="drop: expected a number or 'evidence'"):
            BayesianDropoutRegression(value).fit(*data())
        with pytest.raises(TypeError, match="prior_precision: expected a number or 'evidence'"):
            BayesianDropoutRegression(0.1, value).fit(*data())

    def test_options(self) -> None:
        with pytest.raises(ValueError, match="solver: expected 'auto', 'cholesky' or 'cg'"):
            BayesianDropoutRegression(solver="svd").fit(*data())
        for tol in (0, np.inf, np.nan, "a"):
            with pytest.raises(ValueError, match=r"tol: expected a number in \(0, 1\)"):
                BayesianDropoutRegression(tol=tol, solver="cg").fit(*data())
        for intercept in (2, None, "no"):
            with pytest.raises(TypeError, match="fit_intercept: expected True or False"):
                BayesianDropoutRegression(fit_intercept=intercept).fit(*data())
        model = BayesianDropoutRegression().fit(*data())
        for draws in (-1, 1.5, "5"):
            with pytest.raises(ValueError, match="draws: expected a whole number of masks >= 0"):
                model.predictive(data()[0], draws=draws)
        for draws in (0, 2.5):
            with pytest.raises(ValueError, match="draws: expected a whole number >= 1"):
                model.sample_weights(draws)

    @pytest.mark.parametrize("values", [(), 0.1, "evidence", ["evidence"], [[0.1]], [True]])
    def test_values_to_try(self, values: Any) -> None:
        with pytest.raises(ValueError, match=r"^drops: expected a sequence of at least one number"):
            BayesianDropoutRegressionCV(values).fit(*data())
        with pytest.raises(ValueError, match=r"^prior_precisions: expected a sequence"):
            BayesianDropoutRegressionCV((0.1,), values).fit(*data())

    def test_folds_that_do_not_count(self) -> None:
        X, y = data()
        weights = np.repeat([1.0, 0.0], 20)
        with pytest.raises(ValueError, match=r"rows that count .* none in fold 2"):
            BayesianDropoutRegressionCV(cv=4).fit(X, y, sample_weight=weights)
        with pytest.raises(ValueError, match=r"rows that count .* none in fold 0"):
            BayesianDropoutRegressionCV(cv=[(np.arange(20), np.arange(0))]).fit(X, y)

    def test_targets_that_are_no_numbers(self) -> None:
        X, y = data()
        with pytest.raises(ValueError, match="y: expected numbers, got <U"):
            BayesianDropoutRegression().fit(X, y.astype(str))

    @pytest.mark.parametrize("solver", ["auto", "cg"])
    @pytest.mark.parametrize("exponent", [-300, -170, -80, 80, 154, 200, 300])
    @pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
    def test_sizes_whose_squares_float64_does_not_hold(
        self, solver: Any, exponent: int, stored: Callable[[FloatArray], Any]
    ) -> None:
        X, y = data()
        model = BayesianDropoutRegression(solver=solver)
        with pytest.raises(ValueError, match=r"y: expected columns .* rescale y"):
            model.fit(stored(X), y * 10.0**exponent)
        X[:, 2] *= 10.0**exponent
        with pytest.raises(ValueError, match=r"X: expected columns .* rescale X"):
            model.fit(stored(X), y)

    @pytest.mark.parametrize("solver", ["auto", "cg"])
    @pytest.mark.parametrize("exponent", [-69, 69])
    def test_sizes_up_to_the_limit(self, solver: Any, exponent: int) -> None:
        X, y = data()
        scale = 10.0**exponent
        plain = BayesianDropoutRegression(0.2, 0.0, solver=solver).fit(X, y)
        scaled = BayesianDropoutRegression(0.2, 0.0, solver=solver).fit(X * scale, y / scale)
        np.testing.assert_allclose(scaled.coef_ * scale * scale, plain.coef_, rtol=1e-6)
        if solver == "auto":
            chosen = BayesianDropoutRegression("evidence", "evidence").fit(X * scale, y)
            assert chosen.score(X * scale, y) > 0.9

    @pytest.mark.parametrize("name", ["predictive", "sample_weights", "evidence"])
    def test_unfitted(self, name: str) -> None:
        arguments = [data()[0]] if name == "predictive" else []
        with pytest.raises(NotFittedError):
            getattr(BayesianDropoutRegression(), name)(*arguments)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_missing_values(self, bad: float) -> None:
        X, y = data()
        X[0, 0] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            BayesianDropoutRegression().fit(X, y)
        X, y = data()
        y[0] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            BayesianDropoutRegression().fit(X, y)

    def test_weights(self) -> None:
        X, y = data()
        with pytest.raises(ValueError, match="sample_weight: expected counts >= 0"):
            BayesianDropoutRegression().fit(X, y, sample_weight=-np.ones(40))

    @pytest.mark.parametrize("solver", ["auto", "cg"])
    @pytest.mark.parametrize("features", [5, 50])
    @pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
    def test_zero_features_without_a_prior(
        self, solver: Any, features: int, stored: Callable[[FloatArray], Any]
    ) -> None:
        X, y = data(features=features)
        X[:, [1, 3]] = 0
        with pytest.raises(ValueError, match="got 2 such columns, the first 1; remove them"):
            BayesianDropoutRegression(0.3, 0.0, solver=solver).fit(stored(X), y)
        model = BayesianDropoutRegression(0.3, 1e-9, solver=solver).fit(stored(X), y)
        assert (model.coef_[[1, 3]] == 0).all()

    def test_constant_features(self) -> None:
        """With an intercept a constant says nothing: dropout gives it no weight."""
        X, y = data()
        X[:, 2] = 7
        for prior_precision in (0.0, 1.0):
            model = BayesianDropoutRegression(0.3, prior_precision).fit(X, y)
            assert model.coef_[2] == pytest.approx(0, abs=1e-12)

    @pytest.mark.parametrize("constant", [0.1, 0.3, 0.7, 1.0, 1.1, 2.2, 7.7, 100000.1])
    @pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
    def test_constant_features_without_a_prior(
        self, constant: float, stored: Callable[[FloatArray], Any]
    ) -> None:
        for rows in (7, 40):
            X, y = data(rows)
            X[:, 2] = constant
            for column in (X[:, 2], np.nextafter(X[:, 2], X[:, 0])):  # also up to the last digit
                X[:, 2] = column
                with pytest.raises(ValueError, match="remove constant and repeated features"):
                    BayesianDropoutRegression(0.0, 0.0).fit(stored(X), y)

    def test_dependent_features_need_a_prior_or_dropout(self) -> None:
        X, y = data()
        X[:, 4] = X[:, 0] - 2 * X[:, 1]
        with pytest.raises(ValueError, match="linearly independent features"):
            BayesianDropoutRegression(0.0, 0.0).fit(X, y)
        assert np.isfinite(BayesianDropoutRegression(0.1, 0.0).fit(X, y).predictive(X).std).all()

    @pytest.mark.parametrize("solver", ["auto", "cholesky", "cg"])
    def test_more_features_than_rows_need_a_prior_or_dropout(self, solver: Any) -> None:
        X, y = data(features=50)
        with pytest.raises(ValueError, match="prior_precision: expected > 0 where drop is 0"):
            BayesianDropoutRegression(0.0, 0.0, solver=solver).fit(X, y)

    def test_one_row(self) -> None:
        X, y = data(rows=1)
        model = BayesianDropoutRegression().fit(X, y)
        np.testing.assert_allclose(model.predict(X), y)
        with pytest.raises(ValueError, match="n_samples = 1 by weight"):
            model.predictive(X)
        without = BayesianDropoutRegression(fit_intercept=False).fit(X, y)
        assert without.predictive(X).freedom == 1
        with pytest.raises(ValueError, match="n_samples = 1 by weight"):
            BayesianDropoutRegression().fit(*data(5), sample_weight=np.full(5, 0.2)).predictive(X)

    def test_conjugate_gradients_give_the_mean_alone(self) -> None:
        X, y = data()
        model = BayesianDropoutRegression(solver="cg").fit(X, y)
        for ask in (lambda: model.predictive(X), model.sample_weights, model.evidence):
            with pytest.raises(ValueError, match="got 'cg', which computes the mean only"):
                ask()

    def test_conjugate_gradients_say_when_they_do_not_converge(self) -> None:
        X, y = data(rows=60, features=40)
        X = X * 10.0 ** np.linspace(-6, 6, 40)
        with pytest.warns(ConvergenceWarning, match="got none for drop=0, prior_precision=1e-06"):
            BayesianDropoutRegression(0.0, 1e-6, solver="cg").fit(X, y)
