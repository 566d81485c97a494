"""The evidence against scipy, integration, finite differences, autograd and a fine grid."""

import contextlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from scipy import integrate, special
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from dubio.regression import BayesianDropoutRegression, DropoutPosterior, DropoutPrior, Evidence
from dubio.regression.design import make_design
from dubio.regression.evidence import log_marginal_likelihood
from dubio.regression.maximisation import maximise
from dubio.regression.solver import Solver
from naive_regression import Array, mean_squared_errors


def problem(rows: int, features: int, seed: int = 0, outputs: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.normal(size=features), rng.uniform(0.3, 3, features), (rows, features))
    targets = X @ rng.normal(size=(features, outputs) if outputs else features)
    return X, 1 + targets + rng.normal(size=targets.shape)


def evidence(X: Array, y: Array, drop: float, precision: float, intercept: bool = True) -> Evidence:
    return BayesianDropoutRegression(drop, precision, fit_intercept=intercept).fit(X, y).evidence()


def highest(X: Array, y: Array, drops: Sequence[float], precisions: Array) -> float:
    """The best of a grid, as far as float64 can tell."""
    design, solver = make_design(X, np.ones(len(X)), intercept=True), Solver("cholesky")
    found = [-np.inf]
    for prior in (DropoutPrior(drop, precision) for drop in drops for precision in precisions):
        with contextlib.suppress(np.linalg.LinAlgError):
            found.append(log_marginal_likelihood(DropoutPosterior(design, y, prior, solver)))
    return max(found)


def autograd(X: Array, y: Array, intercept: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """The same written down in the rows: y ~ t with covariance (1 − f)² X P⁻¹ Xᵀ + I [+ ∞ 11ᵀ]."""
    rows = torch.from_numpy(X)
    targets = torch.from_numpy(y.reshape(len(y), -1))
    squares = rows.square().sum(0)
    count = len(rows) - intercept

    def log_evidence(drop: Tensor, precision: Tensor) -> Tensor:
        penalty = precision + drop * (1 - drop) * squares
        kernel = torch.eye(len(rows), dtype=torch.float64)
        kernel = kernel + (1 - drop) ** 2 * (rows / penalty) @ rows.T
        ones = torch.ones(len(rows), 1, dtype=torch.float64)
        inverse = torch.linalg.inv(kernel)
        log_determinant = torch.logdet(kernel)
        if intercept:  # marginal over a flat β, by generalised least squares
            information = ones.T @ inverse @ ones
            inverse = inverse - inverse @ ones @ ones.T @ inverse / information
            log_determinant = log_determinant + information.log().squeeze()
        squared = torch.einsum("nk,nm,mk->k", targets, inverse, targets)
        logs = torch.lgamma(torch.tensor(count / 2, dtype=torch.float64)) - count / 2 * torch.log(
            torch.pi * squared
        )
        return (logs - log_determinant / 2).sum()

    return log_evidence


@pytest.mark.parametrize("rows", [12, 4])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("drop", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("outputs", [0, 2])
def test_value_and_gradient_by_autograd(
    rows: int, intercept: bool, drop: float, outputs: int
) -> None:
    X, y = problem(rows, 7, outputs=outputs)
    point = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (drop, 0.7)]
    value = autograd(X, y, intercept)(*point)
    gradient = torch.autograd.grad(value, point)
    ours = evidence(X, y, drop, 0.7, intercept)
    assert ours.log_marginal_likelihood == pytest.approx(value.item(), rel=1e-10)
    assert ours.drop_gradient == pytest.approx(gradient[0].item(), rel=1e-8)
    assert ours.prior_precision_gradient == pytest.approx(gradient[1].item(), rel=1e-8)


@pytest.mark.parametrize("rows", [12, 4])
@pytest.mark.parametrize("drop", [0.2, 0.8])
def test_gradient_by_finite_differences(rows: int, drop: float) -> None:
    X, y = problem(rows, 7)
    step = 1e-5

    def value(drop: float, precision: float) -> float:
        return evidence(X, y, drop, precision).log_marginal_likelihood

    ours = evidence(X, y, drop, 0.7)
    in_drop = (value(drop + step, 0.7) - value(drop - step, 0.7)) / (2 * step)
    in_precision = (value(drop, 0.7 + step) - value(drop, 0.7 - step)) / (2 * step)
    assert ours.drop_gradient == pytest.approx(in_drop, rel=1e-6)
    assert ours.prior_precision_gradient == pytest.approx(in_precision, rel=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_it_is_the_integral_over_all_unknowns(intercept: bool) -> None:
    """One feature, masks enumerated; w and β by quadrature, σ² as a Gamma integral.

    The paper's Z (eq. 9) is what comes out with the prior N(0, σ²/λ0); with the normalised prior of
    precision P it is larger by ½ log(P/λ0).
    """
    drop, precision, rows = 0.3, 0.5, 6
    X, y = problem(rows, 1)

    def integrand(weight: float, offset: float = 0.0) -> float:
        point = np.array([[weight]]), np.array([offset])
        energy = mean_squared_errors(X, y, *point, drop)[0] + precision * weight**2
        # ∫ σ⁻² (2πσ²)^-(n+1)/2 exp(-energy/2σ²) dσ², times √λ0
        half = (rows + 1) / 2
        return float(np.exp(special.gammaln(half) - half * np.log(np.pi * energy)))

    if intercept:
        total = integrate.nquad(integrand, [(-np.inf, np.inf)] * 2)[0]
    else:
        total = integrate.quad(integrand, -np.inf, np.inf)[0]
    log_z = np.log(total) + np.log(precision) / 2
    penalty = precision + drop * (1 - drop) * float((X**2).sum())
    ours = evidence(X, y, drop, precision, intercept).log_marginal_likelihood
    assert log_z + np.log(penalty / precision) / 2 == pytest.approx(ours, rel=1e-6)


def test_the_normaliser_of_the_paper_never_prefers_dropout() -> None:
    X, y = problem(15, 4)

    def log_z(drop: float, precision: float) -> float:
        penalty = precision + drop * (1 - drop) * (X**2).sum(0)
        value = evidence(X, y, drop, precision).log_marginal_likelihood
        return float(value - np.log(penalty / precision).sum() / 2)

    for drop in (0.1, 0.5, 0.9):
        for precision in (1e-2, 1.0, 1e2):
            assert log_z(drop, precision) < log_z(0.0, precision / (1 - drop) ** 2)


@pytest.mark.parametrize("rows", [40, 8])
@pytest.mark.parametrize("scaled", [True, False])
def test_the_best_of_a_fine_grid(rows: int, scaled: bool) -> None:
    """Where features are rescaled at random, dropout explains the targets better than ridge."""
    X, y = problem(rows, 12, seed=rows)
    if scaled:
        X *= 10.0 ** np.random.default_rng(1).uniform(-3, 3, 12)
    found = BayesianDropoutRegression("evidence", "evidence").fit(X, y)
    best = found.evidence().log_marginal_likelihood
    precisions = (X**2).sum(0).mean() * 10.0 ** np.linspace(-8, 8, 33)
    assert best >= highest(X, y, list(np.linspace(0, 0.99, 34)), precisions) - 1e-6
    if scaled and rows == 40:
        ridge = BayesianDropoutRegression(0.0, "evidence").fit(X, y)
        assert found.drop_ > 0.001
        assert best > ridge.evidence().log_marginal_likelihood + 1


@pytest.mark.parametrize("large", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("drop", [None, 0.0, 0.1])
def test_one_feature_in_large_units(large: float, drop: float | None) -> None:
    """The others decide, and their best λ0 is far from the size of the large one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    X[:, 0] *= large
    y = X[:, 1] - X[:, 2] + 0.2 * rng.normal(size=60)
    model = BayesianDropoutRegression("evidence" if drop is None else drop, "evidence").fit(X, y)
    drops = (0.0, 1e-4, 1e-3, 1e-2, 0.1) if drop is None else (drop,)
    best = highest(X, y, drops, 10.0 ** np.linspace(-6, 6, 25))
    assert model.evidence().log_marginal_likelihood > best - 1e-6
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("centred", [True, False])
def test_raw_measurements(centred: bool) -> None:
    """Thirty features whose sums of squares span ten decades."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X - X.mean(0) if centred else X
    model = BayesianDropoutRegression("evidence", "evidence").fit(X, y)
    drops = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)
    best = highest(X, y, drops, 10.0 ** np.linspace(-6, 6, 25))
    assert model.evidence().log_marginal_likelihood > best - 1e-6


def test_random_problems_of_all_scales() -> None:
    """Two hills, features far from zero, more features than rows: none is missed by 0.02 nats."""
    rng = np.random.default_rng(5)
    for trial in range(12):
        rows, features = rng.integers(8, 40), rng.integers(1, 12)
        X = rng.normal(size=(rows, features)) * np.exp(3 * rng.normal(size=features))
        X += (trial % 3) * rng.normal(size=features) * np.abs(X).mean(0)
        weights = rng.normal(size=features) / (1 if trial % 2 else np.abs(X).mean(0))
        y = X @ weights * rng.choice([0.3, 1, 3]) + rng.normal(size=rows)
        model = BayesianDropoutRegression("evidence", "evidence").fit(X, y)
        drops = (0.0, 1e-3, 1e-2, 0.1, 0.3, 0.6, 0.9)
        precisions = (X**2).sum(0).mean() * 10.0 ** np.linspace(-12, 4, 9)
        best = highest(X, y, drops, precisions)
        assert model.evidence().log_marginal_likelihood > best - 0.02


def test_units_do_not_matter() -> None:
    X, y = problem(40, 6)
    plain = BayesianDropoutRegression("evidence", "evidence").fit(X, y)
    for scale in (1e-60, 1e-5, 1e60):
        model = BayesianDropoutRegression("evidence", "evidence").fit(X * scale, y / scale)
        assert model.prior_precision_ / scale**2 == pytest.approx(plain.prior_precision_, rel=1e-2)
        np.testing.assert_allclose(model.predict(X * scale) * scale, plain.predict(X), rtol=1e-4)


def test_targets_without_noise_stop_at_a_bound() -> None:
    X, _ = problem(30, 3)
    y = X @ np.arange(3.0)
    with pytest.warns(ConvergenceWarning, match="at its end, where the evidence still grows"):
        model = BayesianDropoutRegression("evidence", "evidence").fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-5)


def test_features_that_say_nothing_need_no_warning() -> None:
    """The evidence tends to a constant there. Nor do equal squares: f changes nothing."""
    X, _ = problem(30, 3)
    y = np.random.default_rng(1).normal(size=30)
    model = BayesianDropoutRegression("evidence", "evidence").fit(X - X.mean(0), y)
    assert model.score(X - X.mean(0), y) < 0.2
    constant = BayesianDropoutRegression("evidence", "evidence").fit(np.full((30, 2), 0.3), y)
    np.testing.assert_allclose(constant.coef_, 0, atol=1e-12)
    scaled = (X - X.mean(0)) / X.std(0)
    model = BayesianDropoutRegression("evidence", "evidence").fit(scaled, scaled[:, 0] + y)
    assert model.drop_ == 0


@pytest.mark.parametrize(("drop", "precision"), [(None, 0.3), (None, 0.0), (0.4, None)])
def test_one_of_the_two_may_be_fixed(drop: float | None, precision: float | None) -> None:
    X, y = problem(30, 5)
    design = make_design(X, np.ones(30), intercept=True)
    prior = maximise(design, y, drop, precision)
    found = evidence(X, y, prior.drop, prior.precision)
    if drop is None:
        assert prior.precision == precision
        assert prior.drop == 0 or abs(found.drop_gradient) < 1e-2
    else:
        assert prior.drop == drop
        assert abs(found.prior_precision_gradient * prior.precision) < 1e-2
    assert BayesianDropoutRegression(
        "evidence" if drop is None else drop, "evidence" if precision is None else precision
    ).fit(X, y).evidence().log_marginal_likelihood == pytest.approx(found.log_marginal_likelihood)


def test_no_evidence_without_a_prior_or_without_noise() -> None:
    X, y = problem(30, 3)
    with pytest.raises(ValueError, match="flat prior has no evidence"):
        evidence(X, y, 0.0, 0.0)
    for constant in (0.0, 0.1, 0.3, 0.7, 1e9):
        with pytest.raises(ValueError, match="targets that vary"):
            BayesianDropoutRegression("evidence").fit(X, np.full(30, constant))
    with pytest.raises(ValueError, match="choose by evidence, got 'cg'"):
        BayesianDropoutRegression("evidence", solver="cg").fit(X, y)
    with pytest.raises(ValueError, match="n_samples = 1"):
        BayesianDropoutRegression("evidence").fit(X[:1], y[:1])
