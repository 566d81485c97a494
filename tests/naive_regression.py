"""Bayesian dropout regression done naively: masks enumerated, the intercept a coefficient too.

The oracle of tests/regression. Nothing here is shared with the library.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def all_masks(features: int, drop: float) -> tuple[Array, Array]:
    """Every mask, `(2^D, D)`, and its probability, `(2^D,)`."""
    masks = np.array(list(product([0.0, 1.0], repeat=features)))
    return masks, np.where(masks == 1, 1 - drop, drop).prod(1)


def mean_squared_errors(X: Array, y: Array, weights: Array, intercept: Array, drop: float) -> Array:
    """The sum over rows of the expectation over masks of (y − β − Σ_d z_d x_d w_d)².

    Args:
        weights: `(P, D)`, with an intercept `(P,)` for each.
    """
    masks, probabilities = all_masks(X.shape[1], drop)
    total = np.zeros(len(weights))
    for x, target in zip(X, y, strict=True):
        for mask, probability in zip(masks, probabilities, strict=True):
            total += probability * np.square(target - intercept - weights @ (mask * x))
    return total


@dataclass(frozen=True)
class Naive:
    """The posterior over (β, w), or over w alone, from one explicit matrix."""

    mean: Array
    covariance: Array  # over the noise variance
    shape: float
    rate: float
    intercept: bool

    @classmethod
    def fit(cls, X: Array, y: Array, drop: float, precision: float, intercept: bool) -> "Naive":
        """Least squares on rows (1, (1 − f)x), with a penalty on w only."""
        rows = len(X)
        design = (1 - drop) * X
        penalty = precision + drop * (1 - drop) * (X**2).sum(0)
        if intercept:
            design = np.column_stack([np.ones(rows), design])
            penalty = np.concatenate([[0.0], penalty])
        matrix = design.T @ design + np.diag(penalty)
        mean = np.linalg.solve(matrix, design.T @ y)
        rate = (y @ y - mean @ matrix @ mean) / 2
        return cls(mean, np.linalg.inv(matrix), (rows - intercept) / 2, rate, intercept)

    def student(self, row: Array, keep: Array | float) -> tuple[float, float]:
        """Location and scale of y for one row, whose features are multiplied by `keep`."""
        u = np.concatenate([[1.0], keep * row]) if self.intercept else keep * row
        spread = 1 + u @ self.covariance @ u
        return float(u @ self.mean), float(np.sqrt(self.rate / self.shape * spread))
