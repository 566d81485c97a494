"""The evidence against scipy, integration, finite differences, autograd and a fine grid."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import integrate, special
from torch import Tensor

from dubio.regression import BayesianDropoutRegression, Evidence
from dubio.regression.design import make_design
from dubio.regression.evidence import maximise
from naive_regression import Array, mean_squared_errors


def problem(rows: int, features: int, seed: int = 0, outputs: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.normal(size=features), rng.uniform(0.3, 3, features), (rows, features))
    targets = X @ rng.normal(size=(features, outputs) if outputs else features)
    return X, 1 + targets + rng.normal(size=targets.shape)


def evidence(X: Array, y: Array, drop: float, precision: float, intercept: bool = True) -> Evidence:
    return BayesianDropoutRegression(drop, precision, fit_intercept=intercept).fit(X, y).evidence()


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
    unit = (X**2).sum(0).mean()
    grid = [
        evidence(X, y, drop, unit * precision).log_marginal_likelihood
        for drop in np.linspace(0, 0.99, 34)
        for precision in 10.0 ** np.linspace(-8, 8, 33)
    ]
    assert best >= max(grid) - 1e-6
    if scaled and rows == 40:
        ridge = BayesianDropoutRegression(0.0, "evidence").fit(X, y)
        assert found.drop_ > 0.001
        assert best > ridge.evidence().log_marginal_likelihood + 1


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
    X, y = problem(20, 3)
    with pytest.raises(ValueError, match="flat prior has no evidence"):
        evidence(X, y, 0.0, 0.0)
    for constant in (0.0, 0.1, 1e9):
        with pytest.raises(ValueError, match="targets that vary"):
            BayesianDropoutRegression("evidence").fit(X, np.full(20, constant))
    with pytest.raises(ValueError, match="choose by evidence, got 'cg'"):
        BayesianDropoutRegression("evidence", solver="cg").fit(X, y)
    with pytest.raises(ValueError, match="n_samples = 1"):
        BayesianDropoutRegression("evidence").fit(X[:1], y[:1])
