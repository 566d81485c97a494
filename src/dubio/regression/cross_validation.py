"""Choosing f and λ0 by cross-validation, all values together."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, final

import numpy as np
from sklearn.model_selection import check_cv

from dubio.regression.design import BLOCK, Design, make_design
from dubio.regression.estimator import DropoutRegression
from dubio.regression.prior import DropoutPrior, FloatArray
from dubio.regression.solver import Solver, SolverName
from dubio.report.progress import Progress


@final
class BayesianDropoutRegressionCV(DropoutRegression):
    """`BayesianDropoutRegression` with f and λ0 chosen by cross-validated squared error.

    In each fold the means of all pairs are computed together: from one XᵀX, or as columns of one
    conjugate-gradient iteration.

    Args:
        drops: The rates to try.
        prior_precisions: The values of λ0 to try.
        cv: Number of folds, a splitter, or an iterable of splits; None for five folds. Folds are
            consecutive rows: if rows are sorted, pass `KFold(5, shuffle=True)`. For groups pass the
            splits, `list(GroupKFold(5).split(X, y, groups))`.
        fit_intercept: As in `BayesianDropoutRegression`.
        solver: As in `BayesianDropoutRegression`.
        tol: As in `BayesianDropoutRegression`.

    Attributes:
        mse_path_: Mean squared error of every rate, λ0 and fold.
        drop_: The best rate.
        prior_precision_: The best λ0. Other attributes are those of `BayesianDropoutRegression`,
            for the best pair and all rows.
    """

    def __init__(
        self,
        drops: Sequence[float] = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9),
        prior_precisions: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3, 1e4),
        *,
        cv: Any = None,
        fit_intercept: bool = True,
        solver: SolverName = "auto",
        tol: float = 1e-8,
    ) -> None:
        self.drops = drops
        self.prior_precisions = prior_precisions
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol

    def _choose(self, X: Any, y: FloatArray, weights: FloatArray, solver: Solver) -> DropoutPrior:
        drops = _numbers("drops", self.drops)
        precisions = _numbers("prior_precisions", self.prior_precisions)
        priors = [DropoutPrior(*pair) for pair in product(drops, precisions)]
        folds = list(check_cv(self.cv).split(X, y))
        errors = np.empty((len(priors), len(folds)))
        with Progress("cross-validation", len(folds)) as progress:
            for fold, (train, test) in enumerate(folds):
                if not (weights[train].any() and weights[test].any()):
                    raise ValueError(
                        "cv: expected rows that count to train and to test on in every fold, got "
                        f"none in fold {fold}; remove rows of weight zero, or shuffle: "
                        "cv=KFold(5, shuffle=True)"
                    )
                design = make_design(X[train], weights[train], bool(self.fit_intercept))
                predictions = predict_path(design, y[train], priors, solver, X[test])
                for j, predicted in enumerate(predictions):
                    squares = np.square(y[test] - predicted)
                    errors[j, fold] = np.average(squares, axis=0, weights=weights[test]).mean()
                progress.advance()
        self.mse_path_ = errors.reshape(len(drops), len(precisions), -1)
        return priors[int(errors.mean(1).argmin())]


def _numbers(name: str, values: Sequence[float]) -> list[float]:
    """Return the values to try."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise ValueError(
            f"{name}: expected a sequence of at least one number, got {values!r}; for a single "
            f"value write {name}=[value]"
        )
    return [float(value) for value in array]


def predict_path(
    design: Design, y: FloatArray, priors: Sequence[DropoutPrior], solver: Solver, X: Any
) -> Iterator[FloatArray]:
    """Yield the predictions for rows X `(B, D)` under each prior in turn: `(B, *E)`.

    The means of as many priors are found together as fit a block of memory.
    """
    targets, target_mean = design.center_targets(y.reshape(len(y), -1))
    together = max(1, BLOCK // (max(design.shape) * targets.shape[1]))
    for start in range(0, len(priors), together):
        part = priors[start : start + together]
        means = solver.means(design, targets, part)  # (D, J, K)
        for prior, mean in zip(part, means.swapaxes(0, 1), strict=True):
            offset = target_mean - prior.keep * design.center @ mean
            yield (prior.keep * (X @ mean) + offset).reshape(-1, *y.shape[1:])
