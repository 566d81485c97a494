"""Herlau et al. 2022, figure 1a: paths against other ways to them, rules against made-up rows."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso, Ridge

from dubio.data.inventory import DATASETS
from dubio.regression.prior import FloatArray
from dubio_studies.framework.rows import Rows
from dubio_studies.herlau2022.figure_1a.computation import Config, amino_acids, path
from dubio_studies.herlau2022.figure_1a.page import CLAIMS, Point, positive_from
from verdicts import said


@pytest.fixture
def problem() -> tuple[FloatArray, FloatArray]:
    """Correlated features of different sizes, centred."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(15, 4)) @ rng.normal(size=(4, 4)) * [1.0, 10.0, 0.1, 3.0]
    target = rows @ [1.0, -0.1, 5.0, 0.0] + rng.normal(size=15)
    return rows - rows.mean(0), target - target.mean()


def test_dropout_is_equation_14(problem: tuple[FloatArray, FloatArray]) -> None:
    rows, target = problem
    strengths, weights, fitted = path("dropout", rows, target, 6)
    gram = rows.T @ rows
    for j, strength in enumerate(strengths):
        f = strength / (1 + strength)
        precision = f * (1 - f) * np.diag(gram.diagonal()) + (1 - f) ** 2 * gram
        expected = (1 - f) * np.linalg.solve(precision, rows.T @ target)
        np.testing.assert_allclose(weights[:, j], expected, rtol=1e-6)
        np.testing.assert_allclose(fitted[:, j], (1 - f) * expected, rtol=1e-6)
    alone = rows.T @ target / gram.diagonal()
    np.testing.assert_allclose(weights[:, -1], alone, rtol=0.02)


def test_ridge_and_lasso_are_those_of_scikit_learn(problem: tuple[FloatArray, FloatArray]) -> None:
    rows, target = problem
    strengths, weights, _ = path("ridge", rows, target, 6)
    for j, strength in enumerate(strengths):
        penalty = strength * np.prod((rows**2).sum(0)) ** (1 / 4)
        expected = Ridge(alpha=penalty, fit_intercept=False).fit(rows, target).coef_
        np.testing.assert_allclose(weights[:, j], expected, rtol=1e-6)
    shares, weights, _ = path("lasso", rows, target, 6)
    largest = np.abs(rows.T @ target).max() / len(rows)
    for j, share in enumerate(shares[:-1]):
        model = Lasso(share * largest, fit_intercept=False, max_iter=10**6, tol=1e-12)
        np.testing.assert_allclose(weights[:, j], model.fit(rows, target).coef_, atol=1e-5)
    assert not weights[:, -1].any()


def test_with_unit_variance_dropout_and_ridge_differ_by_a_factor(
    problem: tuple[FloatArray, FloatArray],
) -> None:
    rows, target = problem
    scaled = rows / rows.std(0)
    _, _, dropout = path("dropout", scaled, target, 6)
    _, _, ridge = path("ridge", scaled, target, 6)
    np.testing.assert_allclose(dropout, ridge, rtol=1e-6)


def test_every_feature_is_positively_correlated() -> None:
    if DATASETS["qspr"].here() is None:
        pytest.skip("qspr: not here, neither in DUBIO_DATA nor in the cache")
    names, features, target = amino_acids()
    assert features.shape == (19, 7) == (19, len(names))
    assert (features.T @ target > 0).all()


def test_positive_for_good() -> None:
    points = [Point(1, 0.9, [1, 2]), Point(2, 0.8, [-1, 2]), Point(3, 0.5, [1, 1])]
    assert positive_from(points) is points[2]
    assert positive_from(points[:2]) is None


def made_up(ends: dict[str, list[float]], starts: dict[str, list[float]]) -> Rows:
    """Paths of two points each, which explain 0.5 and 0.1; alone the coefficients are 2 and 1."""
    rows: list[dict[str, Any]] = []
    for units in ("unit variance", "own units"):
        for name, value in (("a", 2.0), ("b", 1.0)):
            place = {"units": units, "feature": name}
            rows.append({**place, "method": "dropout", "metric": "alone", "value": value})
        for method, end in ends.items():
            for step, values in enumerate((starts[method], end)):
                point = {"step": step, "strength": 10.0**step, "explained": (0.5, 0.1)[step]}
                for name, value in zip("ab", values, strict=True):
                    row = {"units": units, "method": method, "feature": name, "value": value}
                    rows.append({**row, **point, "metric": "coefficient"})
    return Rows(rows)


GOOD = {"dropout": [2.0, 1.0], "ridge": [0.01, 0.005], "lasso": [0.0, 0.0]}
EARLY = {"dropout": [1.0, 0.1], "ridge": [1.0, -0.1], "lasso": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("ends", "starts", "failing"),
    [
        (GOOD, EARLY, set()),
        ({**GOOD, "dropout": [2.0, 0.5]}, EARLY, {0}),
        ({**GOOD, "ridge": [1.0, 0.5]}, EARLY, {1}),
        (GOOD, {**EARLY, "dropout": [1.0, -0.1]}, {2}),
        ({**GOOD, "dropout": [2.0, -1.0]}, EARLY, {0, 2}),
    ],
)
def test_rules_can_fail(
    ends: dict[str, list[float]], starts: dict[str, list[float]], failing: set[int]
) -> None:
    rows = made_up(ends, starts)
    verdicts = [said(claim.judge(rows)) for claim in CLAIMS]
    assert {i for i, verdict in enumerate(verdicts) if verdict == "fails"} == failing


def test_a_path_has_two_ends() -> None:
    with pytest.raises(ValueError, match="steps: expected at least 2"):
        Config(steps=1)
