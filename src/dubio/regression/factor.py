"""The posterior precision Λ, factorised: for whatever needs more than the mean.

Λ = λ0 I + f(1 − f) diag(XᵀX) + (1 − f)² AᵀA = P + (1 − f)² AᵀA (Herlau et al. 2022, eq. 14, with
the centred rows A in place of X where there is an intercept). With no more features than rows Λ
itself is factorised, else the kernel K = I + (1 − f)² A P⁻¹ Aᵀ, which has the size of the rows.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import final

import numpy as np
from scipy import linalg

from dubio.regression.design import Design
from dubio.regression.prior import DropoutPrior, FloatArray

_EPS = float(np.finfo(np.float64).eps)
_DEPENDENT_FEATURES = (
    "X: expected linearly independent features, or a prior that decides between them, got "
    "features that depend on each other up to rounding; increase prior_precision or drop, or "
    "remove constant and repeated features"
)
_DEPENDENT_ROWS = (
    "prior_precision: expected a prior that float64 can tell from none, since there are more "
    "features than rows, got one that vanishes beside the squares of the features; increase "
    "prior_precision or drop, or rescale the features"
)


class Factor(ABC):
    """Results computed from a factor of Λ or of K.

    Attributes:
        log_ratio: log|Λ| − log|P| = log|K|; infinite for the flat prior f = λ0 = 0.
    """

    log_ratio: float

    @abstractmethod
    def mean(self, design: Design, targets: FloatArray) -> FloatArray:
        """Return μ = (1 − f) Λ⁻¹ Aᵀ y for targets `(N, K)` of the factorised design: `(D, K)`."""

    @abstractmethod
    def quadratic(self, rows: FloatArray) -> FloatArray:
        """Return uᵀ Λ⁻¹ u for rows u `(B, D)`: `(B,)`."""

    @abstractmethod
    def sample(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw from N(0, Λ⁻¹): `(S, D)`."""

    @cached_property
    @abstractmethod
    def variances(self) -> FloatArray:
        """The diagonal of Λ⁻¹, `(D,)`."""

    @cached_property
    @abstractmethod
    def determined(self) -> FloatArray:
        """γ_d = 1 − P_d (Λ⁻¹)_dd in [0, 1]: how far the data determine each weight, `(D,)`."""


@final
class PrimalFactor(Factor):
    """Λ = LLᵀ, `(D, D)`. Keeps no training row."""

    def __init__(self, design: Design, prior: DropoutPrior) -> None:
        self._keep, self._penalty = prior.keep, prior.penalty(design.squares)
        precision = prior.keep**2 * design.gram
        precision[np.diag_indices_from(precision)] += self._penalty
        # centring leaves this much of a constant: rounding of its square
        noise = design.shape[0] * _EPS * prior.keep**2 * design.squares
        self._lower = _cholesky(precision, noise, _DEPENDENT_FEATURES)
        with np.errstate(divide="ignore"):
            self.log_ratio = _log_determinant(self._lower) - float(np.log(self._penalty).sum())

    def mean(self, design: Design, targets: FloatArray) -> FloatArray:
        """By two triangular solves."""
        return _solve(self._lower, self._keep * design.adjoint(targets))

    def quadratic(self, rows: FloatArray) -> FloatArray:
        """Return |L⁻¹u|²."""
        return np.asarray(np.square(_triangular(self._lower, rows.T)).sum(0))

    def sample(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Return L⁻ᵀz with standard normal z."""
        noise = rng.standard_normal((draws, len(self._lower)))
        return _triangular(self._lower, noise.T, transposed=True).T

    @cached_property
    def variances(self) -> FloatArray:
        """From the inverse itself."""
        return _inverse(self._lower).diagonal().copy()

    @cached_property
    def determined(self) -> FloatArray:
        """From the variances."""
        return np.clip(1 - self._penalty * self.variances, 0, 1)


@final
class DualFactor(Factor):
    """K = LLᵀ, `(N, N)`. Keeps the training rows, as they are stored.

    Centred rows do not see the direction √s of the intercept: Aᵀ√s = 0, and K has the eigenvalue
    1 there, however large the others are. It gets an eigenvalue of their size, which keeps K well
    conditioned and changes nothing but the determinant.
    """

    def __init__(self, design: Design, prior: DropoutPrior) -> None:
        self._keep, self._penalty = prior.keep, prior.proper_penalty(design.squares)
        self._design = design
        kernel = design.outer(prior.keep**2 / self._penalty)
        extra = 0.0
        if design.intercept:
            extra = float(kernel.trace()) / len(kernel)
            kernel += extra * np.outer(design.roots, design.roots) / design.count
        kernel[np.diag_indices_from(kernel)] += 1
        self._lower = _cholesky(kernel, np.zeros(len(kernel)), _DEPENDENT_ROWS)
        self.log_ratio = _log_determinant(self._lower) - float(np.log1p(extra))

    def mean(self, design: Design, targets: FloatArray) -> FloatArray:
        """Return (1 − f) P⁻¹ Aᵀ K⁻¹ y."""
        return self._spread(_solve(self._lower, targets))

    def quadratic(self, rows: FloatArray) -> FloatArray:
        """Return rᵀP⁻¹r + |β|² with β = K⁻¹ (1 − f) A P⁻¹ u and r = u − (1 − f) Aᵀ β.

        This is Λ⁻¹ΛΛ⁻¹ between u and u. Unlike uᵀP⁻¹u − |L⁻¹ (1 − f) A P⁻¹ u|² it cannot cancel
        where the prior is weak and u is a combination of training rows.
        """
        seen = self._keep * self._design.forward((rows / self._penalty).T)  # (N, B)
        duals = _solve(self._lower, seen)
        rest = rows - self._keep * self._design.adjoint(duals).T  # (B, D)
        prior = np.einsum("bd,bd,d->b", rest, rest, 1 / self._penalty)
        return np.asarray(prior + np.square(duals).sum(0))

    def sample(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw v from the prior and correct it: v − (1 − f) P⁻¹ Aᵀ K⁻¹ ((1 − f) A v + e).

        With noise e ~ N(0, I) in the targets this has the covariance Λ⁻¹.
        """
        prior = (rng.standard_normal((draws, len(self._penalty))) / np.sqrt(self._penalty)).T
        noise = rng.standard_normal((draws, len(self._lower))).T
        seen = self._keep * self._design.forward(prior) + noise  # (N, S)
        return (prior - self._spread(_solve(self._lower, seen))).T

    @cached_property
    def variances(self) -> FloatArray:
        """(1 − γ_d) / P_d."""
        return (1 - self.determined) / self._penalty

    @cached_property
    def determined(self) -> FloatArray:
        """γ_d = (1 − f)² A_dᵀ K⁻¹ A_d / P_d, with A_d the columns of A."""
        seen = self._design.column_quadratics(_inverse(self._lower))
        return np.clip(self._keep**2 * seen / self._penalty, 0, 1)

    def _spread(self, duals: FloatArray) -> FloatArray:
        """Return (1 − f) P⁻¹ Aᵀ α."""
        return self._keep * self._design.adjoint(duals) / self._penalty[:, None]


def factorise(design: Design, prior: DropoutPrior) -> Factor:
    """In the space of the features or of the rows, whichever is smaller."""
    rows, features = design.shape
    return PrimalFactor(design, prior) if features <= rows else DualFactor(design, prior)


def _cholesky(matrix: FloatArray, noise: FloatArray, message: str) -> FloatArray:
    """L with LLᵀ = matrix, unless the matrix is singular up to rounding.

    A squared pivot over its diagonal element is the share of a feature (or row) that those before
    it do not explain. `noise` is rounding in the diagonal that the diagonal itself does not tell.
    """
    size = matrix.diagonal() + noise
    lower, failed = linalg.lapack.dpotrf(matrix.T, lower=True, overwrite_a=True)
    if failed or bool((np.square(lower.diagonal()) <= len(matrix) * _EPS * size).any()):
        raise np.linalg.LinAlgError(message)  # a ValueError
    return np.asarray(lower)


def _log_determinant(lower: FloatArray) -> float:
    return 2 * float(np.log(lower.diagonal()).sum())


def _triangular(lower: FloatArray, columns: FloatArray, transposed: bool = False) -> FloatArray:
    solution: FloatArray = linalg.solve_triangular(
        lower, columns, lower=True, trans=int(transposed), check_finite=False
    )
    return solution


def _solve(lower: FloatArray, columns: FloatArray) -> FloatArray:
    """Return (LLᵀ)⁻¹ V."""
    return np.asarray(linalg.cho_solve((lower, True), columns, check_finite=False))


def _inverse(lower: FloatArray) -> FloatArray:
    """Return (LLᵀ)⁻¹, stored by rows."""
    inverse, _ = linalg.lapack.dpotri(lower, lower=True)  # its upper half is zero
    inverse += np.tril(inverse, -1).T
    return np.asarray(inverse.T)
