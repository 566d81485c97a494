"""The scikit-learn estimator."""

from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, Literal, Self, final, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dubio.regression.design import make_design
from dubio.regression.evidence import Evidence, evidence
from dubio.regression.maximisation import maximise
from dubio.regression.posterior import DropoutPosterior, WeightDraws
from dubio.regression.predictive import StudentTMixture
from dubio.regression.prior import DropoutPrior, FloatArray
from dubio.regression.solver import Solver, SolverName

_LARGEST = 1e70  # (y/x)² is the largest number that occurs

NumpySeed = int | np.random.Generator


class DropoutRegression(MultiOutputMixin, RegressorMixin, BaseEstimator, ABC):
    """A linear regression with dropout: a posterior, and all that follows from it."""

    fit_intercept: bool
    solver: SolverName
    tol: float

    @abstractmethod
    def _choose(self, X: Any, y: FloatArray, weights: FloatArray, solver: Solver) -> DropoutPrior:
        """Choose f and λ0 for these data."""

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the posterior.

        Args:
            X: Rows `(N, D)`, dense or sparse; a sparse X is never made dense.
            y: Targets, `(N,)` or `(N, K)`. Several targets have one noise variance each and share
                the rest.
            sample_weight: Weight of each row, `(N,)`; need not be whole numbers.
        """
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse=["csr", "csc"],
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
        )
        if (kind := np.asarray(y).dtype).kind not in "biuf":
            raise ValueError(f"y: expected numbers, got {kind}; convert them, y.astype(float)")
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise TypeError(
                f"fit_intercept: expected True or False, got {self.fit_intercept!r}; the intercept "
                "is there or not"
            )
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weights < 0).any() or not weights.any():
            raise ValueError(
                "sample_weight: expected counts >= 0 that are not all zero, got "
                f"{weights.min():g} to {weights.max():g}; leave out rows that do not count"
            )
        solver = Solver(self.solver, self.tol)
        X, y = _plain(X), np.asarray(y, dtype=np.float64)
        _check_sizes("X", X)
        _check_sizes("y", y)
        prior = self._choose(X, y, weights, solver)
        design = make_design(X, weights, bool(self.fit_intercept))
        self.posterior_ = DropoutPosterior(design, y, prior, solver)
        self.drop_, self.prior_precision_ = prior.drop, prior.precision
        self.coef_ = self.posterior_.coef
        offset = self.posterior_.offset
        self.intercept_ = offset if offset.ndim else float(offset)
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> FloatArray: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
    def predict(
        self, X: Any, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean (1 − f) xᵀμ + intercept, `(B,)` or `(B, K)`.

        Args:
            X: Rows, `(B, D)`.
            return_std: Whether to return the predictive standard deviation as well, as
                scikit-learn's `BayesianRidge` does.
        """
        rows = self._rows(X)
        mean = np.asarray(rows @ self.coef_.T + self.intercept_)
        if not return_std:
            return mean
        return mean, self.posterior_.predictive(rows, 0, np.random.default_rng()).std

    def predictive(
        self, X: Any, *, draws: int = 0, random_state: NumpySeed | None = None
    ) -> StudentTMixture:
        """Return the full predictive distribution.

        Args:
            X: Rows, `(B, D)`.
            draws: With 0 no features are dropped, and the distribution is an exact Student t.
                Otherwise dropout stays on at test time. Mean and variance are then exact over all
                masks; densities, quantiles and samples use this many masks for each row.
            random_state: Seed or generator of the masks.
        """
        if not isinstance(draws, Integral) or draws < 0:
            raise ValueError(
                f"draws: expected a whole number of masks >= 0, got {draws!r}; 0 does not drop"
            )
        rows = self._rows(X)
        return self.posterior_.predictive(rows, draws, np.random.default_rng(random_state))

    def sample_weights(
        self, draws: int = 1, *, random_state: NumpySeed | None = None
    ) -> WeightDraws:
        """Sample linear functions from the posterior.

        Args:
            draws: Number of functions.
            random_state: Seed or generator of the draws.
        """
        check_is_fitted(self)
        if not isinstance(draws, Integral) or draws < 1:
            raise ValueError(
                f"draws: expected a whole number >= 1, got {draws!r}; ask for one or more"
            )
        return self.posterior_.sample(draws, np.random.default_rng(random_state))

    def evidence(self) -> Evidence:
        """Return the log marginal likelihood of the training targets, with its derivatives."""
        check_is_fitted(self)
        return evidence(self.posterior_)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return _plain(
            validate_data(self, X, accept_sparse=["csr", "csc"], dtype=np.float64, reset=False)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@final
class BayesianDropoutRegression(DropoutRegression):
    """Bayesian linear regression with dropped features, in closed form (Herlau et al. 2022).

    The posterior is that of a conjugate linear model in which every feature has a prior precision
    that grows with its size, so that no weight relies on another feature being present:

        Λ = λ0 I + f(1 − f) diag(XᵀX) + (1 − f)² XᵀX,  μ = (1 − f) Λ⁻¹ Xᵀ y.

    A dropped feature is zero, so centre features that are far from zero, `StandardScaler(
    with_std=False)`: otherwise dropping them is a large error, and their weights are shrunk. Do not
    scale them: with equal sums of squares this is ridge regression, and drop adds nothing.

    The paper's model has no intercept. Here it is not dropped, has a flat prior, and is integrated
    out exactly; it costs one degree of freedom.

    Args:
        drop: f in [0, 1), or "evidence" to choose it by the marginal likelihood. With 0 the mean is
            that of ridge regression.
        prior_precision: λ0 >= 0, the ridge penalty, or "evidence". With 0 predictions do not depend
            on the scales of the features.
        fit_intercept: Whether the model has an intercept.
        solver: "cholesky" factorises Λ or, with more features than rows, its dual. "cg" computes
            the mean only, by conjugate gradients. "auto" computes the mean by the faster of the
            two, and factorises when something else is first asked for.
        tol: Relative residual at which "cg" stops.

    Attributes:
        coef_: (1 − f) μ, `(D,)` or `(K, D)`: predictions are `X @ coef_.T + intercept_`.
        intercept_: A number, or `(K,)`.
        drop_: f, as given or chosen.
        prior_precision_: λ0, as given or chosen.
        posterior_: The posterior, with μ and the noise.
        n_features_in_: D.
        feature_names_in_: The columns of a data frame.
    """

    def __init__(
        self,
        drop: float | Literal["evidence"] = 0.2,
        prior_precision: float | Literal["evidence"] = 1e-3,
        *,
        fit_intercept: bool = True,
        solver: SolverName = "auto",
        tol: float = 1e-8,
    ) -> None:
        self.drop = drop
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol

    def _choose(self, X: Any, y: FloatArray, weights: FloatArray, solver: Solver) -> DropoutPrior:
        drop = _number_or_none("drop", self.drop)
        precision = _number_or_none("prior_precision", self.prior_precision)
        DropoutPrior(drop or 0.0, precision or 0.0)  # complains at once
        if drop is not None and precision is not None:
            return DropoutPrior(drop, precision)
        if solver.name == "cg":
            raise ValueError(
                "solver: expected 'auto' or 'cholesky' to choose by evidence, got 'cg', which "
                "computes the mean only"
            )
        return maximise(make_design(X, weights, bool(self.fit_intercept)), y, drop, precision)


def _number_or_none(name: str, value: float | str) -> float | None:
    if isinstance(value, str) and value == "evidence":
        return None
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(
            f"{name}: expected a number or 'evidence', got {value!r}; to try several values, use "
            "BayesianDropoutRegressionCV"
        )
    return float(value)


def _check_sizes(name: str, values: Any) -> None:
    """Raise a ValueError where squares, or their ratios, would leave the range of float64."""
    if sparse.issparse(values):
        sizes = np.abs(values).max(axis=0).toarray()
    else:
        sizes = np.maximum(values.max(axis=0), -values.min(axis=0))
    sizes = np.atleast_1d(sizes)
    beyond = sizes[(sizes > _LARGEST) | ((sizes > 0) & (sizes < 1 / _LARGEST))]
    if len(beyond) > 0:
        raise ValueError(
            f"{name}: expected columns whose largest numbers lie between {1 / _LARGEST:g} and "
            f"{_LARGEST:g}, got {beyond[0]:g}; rescale {name}"
        )


def _plain(X: Any) -> Any:
    """Return a numpy array, or a sparse array by rows in which every element is stored once."""
    if not sparse.issparse(X):
        return X
    rows = sparse.csr_array(X)
    if not rows.has_canonical_format:
        rows = rows.copy()  # the caller's stays as it is
        rows.sum_duplicates()
    return rows
