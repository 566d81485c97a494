"""How to find the posterior mean: factorise, or iterate.

A factor serves the whole posterior, but it cannot be shared between priors. Conjugate gradients
give the mean alone, for many priors at once, from products with the rows.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dubio.regression.design import Design
from dubio.regression.factor import factorise
from dubio.regression.prior import DropoutPrior, FloatArray

SolverName = Literal["auto", "cholesky", "cg"]

_ITERATIONS = 30  # of conjugate gradients, typically
_MOST_ITERATIONS = 1000
_MATRIX_SPEED = 10  # how much faster a product of matrices multiplies than one with few vectors


@final
@dataclass(frozen=True)
class Solver:
    """The way to the mean.

    Attributes:
        name: "cholesky" factorises; "cg" iterates; "auto" takes what is faster, and factorises
            where iterations do not converge.
        tolerance: Iterations stop when |y − Kα| <= tolerance |y|.
    """

    name: SolverName
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        if self.name not in ("auto", "cholesky", "cg"):
            raise ValueError(
                f"solver: expected 'auto', 'cholesky' or 'cg', got {self.name!r}; 'auto' chooses"
            )
        if not isinstance(self.tolerance, Real) or not 0 < self.tolerance < 1:
            raise ValueError(
                f"tol: expected a number in (0, 1), got {self.tolerance!r}; 1e-8 is nearly exact"
            )

    def factorises(self, design: Design, priors: Sequence[DropoutPrior]) -> bool:
        """Return whether the means come from factors; "auto" counts operations."""
        if self.name != "auto":
            return self.name == "cholesky"
        small, large = sorted(design.shape)
        products = 1 if small == design.shape[1] else len(priors)  # AᵀA serves all priors
        factors = products * small**2 * large + len(priors) * small**3
        iterations = len(priors) * _ITERATIONS * 4 * design.stored
        return factors <= _MATRIX_SPEED * iterations or any(prior.flat for prior in priors)

    def means(
        self, design: Design, targets: FloatArray, priors: Sequence[DropoutPrior]
    ) -> FloatArray:
        """Return μ for every prior and every target `(N, K)`: `(D, J, K)`."""
        if self.factorises(design, priors):
            return np.stack([factorise(design, p).mean(design, targets) for p in priors], axis=1)
        means, converged = iterate(design, targets, priors, self.tolerance)
        for j in map(int, np.flatnonzero(~converged)):
            if self.name == "auto":
                means[:, j] = factorise(design, priors[j]).mean(design, targets)
            else:
                warnings.warn(
                    f"solver: expected convergence to tol={self.tolerance}, got none for "
                    f"drop={priors[j].drop:g}, prior_precision={priors[j].precision:g}; "
                    "set solver='cholesky' or a larger tol",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        return means


def iterate(
    design: Design, targets: FloatArray, priors: Sequence[DropoutPrior], tolerance: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Conjugate gradients for (I + (1 − f)² A P⁻¹ Aᵀ) α = y, all priors and targets as columns.

    Then μ = (1 − f) P⁻¹ Aᵀ α. The system is that of Λ preconditioned by its diagonal part P, so
    dropout, which adds to P, makes it well conditioned.

    Returns:
        The means `(D, J, K)` and whether each prior converged, `(J,)`.
    """
    outputs = targets.shape[1]
    keep = np.repeat([prior.keep for prior in priors], outputs)  # (J * K,)
    penalty = np.stack([p.proper_penalty(design.squares) for p in priors], axis=1)  # (D, J)
    spread = np.repeat(1 / penalty, outputs, axis=1)  # (D, J * K)
    spread *= keep**2

    solution = np.zeros((len(targets), len(keep)))
    open_ = np.arange(len(keep))  # columns that have not converged; the others cost nothing
    residual = np.tile(targets, len(priors))  # (N, J * K)
    duals, direction, scale = np.zeros_like(residual), residual.copy(), spread
    size = _squares(residual)
    goal = tolerance**2 * size
    for _ in range(_MOST_ITERATIONS):
        going = size > goal
        if not going.all():
            solution[:, open_] = duals
            open_, size, goal = open_[going], size[going], goal[going]
            duals, residual, direction = duals[:, going], residual[:, going], direction[:, going]
            scale = spread[:, open_]
        if len(open_) == 0:
            break
        image = design.adjoint(direction)
        image *= scale
        image = design.forward(image)
        image += direction
        step = size / np.einsum("nj,nj->j", direction, image)
        duals += step * direction
        residual -= step * image
        before, size = size, _squares(residual)
        direction *= size / before
        direction += residual
    solution[:, open_] = duals
    means = design.adjoint(solution)
    means *= spread
    means /= keep
    converged = np.ones(len(keep), dtype=np.bool_)
    converged[open_] = size <= goal
    return means.reshape(-1, len(priors), outputs), np.logical_and.reduce(
        converged.reshape(-1, outputs), 1
    )


def _squares(columns: FloatArray) -> FloatArray:
    """Return |v|² of each column."""
    return np.asarray(np.einsum("nj,nj->j", columns, columns))
