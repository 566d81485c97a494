"""Training rows as the posterior sees them: weighted, and centred where there is an intercept.

An intercept is never dropped and has a flat prior. Integrated out, it centres features and
targets, and takes one degree of freedom. Dropout multiplies the raw features, so the squares in
its penalty are not centred.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dubio.regression.prior import FloatArray

BLOCK = 2**22  # numbers in a dense block: 32 MiB
_WIDE = 4  # columns from which on it pays to store a sparse design both ways
_FAR = 1e3  # squares over centred squares from which on a sparse column is stored centred


def blocks(length: int, width: int) -> Iterator[slice]:
    """Cut `length` rows into slices of at most `BLOCK` numbers, `width` to a row."""
    step = max(1, BLOCK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


class Design(ABC):
    """A = √S (X − 1x̄ᵀ) with the weights S = diag(s) of the rows.

    A row of weight s counts as s equal rows.

    Args:
        X: The rows, `(N, D)`.
        weights: s >= 0, `(N,)`.
        intercept: Whether there is one; without it x̄ stands for zero.

    Attributes:
        count: Σ_i s_i, how many rows there are.
        freedom: Degrees of freedom of the noise: the rows, less one for an intercept.
        roots: √s, `(N,)`.
        center: x̄, the weighted mean, `(D,)`.
        squares: c_d = Σ_i s_i x_id², `(D,)`.
        centred_squares: The diagonal of AᵀA, `(D,)`.
    """

    center: FloatArray
    squares: FloatArray
    centred_squares: FloatArray

    def __init__(self, X: Any, weights: FloatArray, intercept: bool) -> None:
        self.shape: tuple[int, int] = X.shape
        self.intercept = intercept
        self.count = float(weights.sum())
        self.freedom = self.count - intercept
        self.roots = np.sqrt(weights)
        self._weights = weights

    def center_targets(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return √S (y − 1ȳᵀ), `(N, K)`, and ȳ, `(K,)`."""
        mean = self._mean(y) if self.intercept else np.zeros(y.shape[1])
        return self.roots[:, None] * (y - mean), mean

    def _mean(self, columns: FloatArray) -> FloatArray:
        """Return the weighted mean, corrected once, so that a constant is its own mean."""
        mean = self._weights @ columns / self.count
        return np.asarray(mean + self._weights @ (columns - mean) / self.count)

    @property
    @abstractmethod
    def stored(self) -> int:
        """How many numbers a product with A reads."""

    @abstractmethod
    def forward(self, columns: FloatArray) -> FloatArray:
        """Return a V for V `(D, J)`: `(N, J)`."""

    @abstractmethod
    def adjoint(self, columns: FloatArray) -> FloatArray:
        """Return Aᵀ U for U `(N, J)`: `(D, J)`."""

    @cached_property
    @abstractmethod
    def gram(self) -> FloatArray:
        """AᵀA, `(D, D)`."""

    @abstractmethod
    def outer(self, scale: FloatArray) -> FloatArray:
        """Return a diag(scale) Aᵀ for a scale `(D,)`: `(N, N)`."""

    @abstractmethod
    def column_quadratics(self, kernel: FloatArray) -> FloatArray:
        """Return the diagonal of Aᵀ M A for a symmetric M `(N, N)`, stored by rows: `(D,)`."""


@final
class DenseDesign(Design):
    """A is stored."""

    def __init__(self, X: FloatArray, weights: FloatArray, intercept: bool) -> None:
        super().__init__(X, weights, intercept)
        self.squares = weights @ np.square(X)
        self.center = self._mean(X) if intercept else np.zeros(X.shape[1])
        self._rows = self.roots[:, None] * (X - self.center)
        self.centred_squares = np.einsum("nd,nd->d", self._rows, self._rows)

    @property
    def stored(self) -> int:
        """How many numbers a product with A reads."""
        return self._rows.size

    def forward(self, columns: FloatArray) -> FloatArray:
        """Return a V."""
        return self._rows @ columns

    def adjoint(self, columns: FloatArray) -> FloatArray:
        """Return Aᵀ U."""
        return self._rows.T @ columns

    @cached_property
    def gram(self) -> FloatArray:
        """AᵀA."""
        return self._rows.T @ self._rows

    def outer(self, scale: FloatArray) -> FloatArray:
        """Return a diag(scale) Aᵀ."""
        return (self._rows * scale) @ self._rows.T

    def column_quadratics(self, kernel: FloatArray) -> FloatArray:
        """Return the diagonal of Aᵀ M A, a block of columns at a time."""
        result = np.empty(self.shape[1])
        for part in blocks(self.shape[1], self.shape[0]):
            columns = self._rows[:, part]
            result[part] = np.einsum("nd,nd->d", columns, kernel @ columns)
        return result


@final
class SparseDesign(Design):
    """A is never formed: √S X stays sparse, and centring is a matrix of rank one beside it.

    Where centring cancels, because a column lies far from zero, nearly all of it is stored anyhow
    (a share q of stored numbers leaves Σ(x − x̄)² >= (1 − q) Σx²). Such columns are stored centred.

    Products with many columns gather from the shorter side, which fits a cache, and stream along
    the longer: where D > N they use a copy that is stored by column.
    """

    def __init__(self, X: Any, weights: FloatArray, intercept: bool) -> None:
        super().__init__(X, weights, intercept)
        self.squares = weights @ sparse.csr_array(X).power(2)
        self.center = weights @ X / self.count if intercept else np.zeros(X.shape[1])
        self.centred_squares = self.squares - self.count * np.square(self.center)
        self._shift = self.center.copy()  # what is left to subtract
        self._rows = sparse.csr_array(X, copy=True)  # the caller may write into X
        far = np.flatnonzero(_FAR * self.centred_squares < self.squares)
        if len(far) > 0:
            self._center_columns(far)
        self._rows.data *= np.repeat(self.roots, np.diff(self._rows.indptr))

    def _center_columns(self, columns: NDArray[np.intp]) -> None:
        """Store these columns centred, and full."""
        dense = self._rows[:, columns].toarray()
        self.center[columns] = self._mean(dense)
        dense -= self.center[columns]
        self.centred_squares[columns] = self._weights @ np.square(dense)
        self._shift[columns] = 0
        others = np.ones(self.shape[1])
        others[columns] = 0
        full = sparse.csr_array(
            (dense.ravel(), np.tile(columns, len(dense)), np.arange(len(dense) + 1) * len(columns)),
            shape=self.shape,
        )
        self._rows = sparse.csr_array(self._rows @ sparse.diags_array(others) + full)

    @cached_property
    def _columns(self) -> Any:
        return self._rows.tocsc()

    def _stored_for(self, columns: FloatArray) -> Any:
        wide = self.shape[1] > self.shape[0] and columns.shape[1] >= _WIDE
        return self._columns if wide else self._rows

    @property
    def stored(self) -> int:
        """How many numbers a product with A reads."""
        return int(self._rows.nnz)

    def forward(self, columns: FloatArray) -> FloatArray:
        """Return a V = √S X V − √s (x̄ᵀV)."""
        product: FloatArray = self._stored_for(columns) @ columns
        if self.intercept:
            product -= np.outer(self.roots, self._shift @ columns)
        return product

    def adjoint(self, columns: FloatArray) -> FloatArray:
        """Return Aᵀ U = (√S X)ᵀ U − x̄ (√sᵀU)."""
        product: FloatArray = self._stored_for(columns).T @ columns
        if self.intercept:
            product -= np.outer(self._shift, self.roots @ columns)
        return product

    @cached_property
    def gram(self) -> FloatArray:
        """AᵀA = XᵀSX − Σs x̄x̄ᵀ."""
        gram: FloatArray = (self._rows.T @ self._rows).toarray()
        return gram - self.count * np.outer(self._shift, self._shift)

    def outer(self, scale: FloatArray) -> FloatArray:
        """Return A diag(scale) Aᵀ some rows at a time: sparse products are nearly full."""
        rows = self._rows
        columns = (rows @ sparse.diags_array(scale)).T.tocsr()  # (D, N)
        cross = rows @ (scale * self._shift) - self.roots * (scale @ self._shift**2) / 2
        result = np.empty((self.shape[0], self.shape[0]))
        for part in blocks(self.shape[0], self.shape[0]):
            result[part] = (rows[part] @ columns).toarray()
            result[part] -= np.outer(cross[part], self.roots) + np.outer(self.roots[part], cross)
        return result

    def column_quadratics(self, kernel: FloatArray) -> FloatArray:
        """Return the diagonal of Aᵀ M A, a block of sparse columns at a time."""
        columns = self._columns.T  # (D, N)
        result = np.empty(self.shape[1])
        for part in blocks(self.shape[1], self.shape[0]):
            block = columns[part]
            result[part] = block.multiply(block @ kernel).sum(axis=1)
        if self.intercept:
            seen = kernel @ self.roots  # (N,)
            result += self._shift * (self._shift * (self.roots @ seen) - 2 * (columns @ seen))
        return result


def make_design(X: Any, weights: FloatArray, intercept: bool) -> Design:
    """Return the design of dense or sparse rows."""
    kind = SparseDesign if sparse.issparse(X) else DenseDesign
    return kind(X, weights, intercept)
