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
from scipy import sparse

from dubio.regression.prior import Array

BLOCK = 2**22  # numbers in a dense block: 32 MiB
_WIDE = 4  # columns from which on it pays to store a sparse design both ways


def blocks(length: int, width: int) -> Iterator[slice]:
    """Cuts `length` rows into slices of at most `BLOCK` numbers, `width` to a row."""
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
        center: x̄, the weighted mean, `(D,)`.
        squares: c_d = Σ_i s_i x_id², `(D,)`.
    """

    center: Array
    squares: Array

    def __init__(self, X: Any, weights: Array, intercept: bool) -> None:
        self.shape: tuple[int, int] = X.shape
        self.intercept = intercept
        self.count = float(weights.sum())
        self.freedom = self.count - intercept
        self._weights = weights
        self._roots = np.sqrt(weights)

    def center_targets(self, y: Array) -> tuple[Array, Array]:
        """√S (y − 1ȳᵀ), `(N, K)`, and ȳ, `(K,)`."""
        mean = self._weights @ y / self.count if self.intercept else np.zeros(y.shape[1])
        return self._roots[:, None] * (y - mean), mean

    @property
    @abstractmethod
    def stored(self) -> int:
        """How many numbers a product with A reads."""

    @abstractmethod
    def forward(self, columns: Array) -> Array:
        """A V for V `(D, J)`: `(N, J)`."""

    @abstractmethod
    def adjoint(self, columns: Array) -> Array:
        """Aᵀ U for U `(N, J)`: `(D, J)`."""

    @cached_property
    @abstractmethod
    def gram(self) -> Array:
        """AᵀA, `(D, D)`."""

    @abstractmethod
    def outer(self, scale: Array) -> Array:
        """A diag(scale) Aᵀ for a scale `(D,)`: `(N, N)`."""

    @abstractmethod
    def column_quadratics(self, kernel: Array) -> Array:
        """The diagonal of Aᵀ M A for a symmetric kernel M `(N, N)`, stored by rows: `(D,)`."""


@final
class DenseDesign(Design):
    """A is stored."""

    def __init__(self, X: Array, weights: Array, intercept: bool) -> None:
        super().__init__(X, weights, intercept)
        self.squares = weights @ np.square(X)
        self.center = weights @ X / self.count if intercept else np.zeros(X.shape[1])
        self._rows = self._roots[:, None] * (X - self.center)

    @property
    def stored(self) -> int:
        """How many numbers a product with A reads."""
        return self._rows.size

    def forward(self, columns: Array) -> Array:
        """A V."""
        return self._rows @ columns

    def adjoint(self, columns: Array) -> Array:
        """Aᵀ U."""
        return self._rows.T @ columns

    @cached_property
    def gram(self) -> Array:
        """AᵀA."""
        return self._rows.T @ self._rows

    def outer(self, scale: Array) -> Array:
        """A diag(scale) Aᵀ."""
        return (self._rows * scale) @ self._rows.T

    def column_quadratics(self, kernel: Array) -> Array:
        """The diagonal of Aᵀ M A, a block of columns at a time."""
        result = np.empty(self.shape[1])
        for part in blocks(self.shape[1], self.shape[0]):
            columns = self._rows[:, part]
            result[part] = np.einsum("nd,nd->d", columns, kernel @ columns)
        return result


@final
class SparseDesign(Design):
    """A is never formed: √S X stays sparse, and centring is a matrix of rank one beside it.

    Products with many columns gather from the shorter side, which fits a cache, and stream along
    the longer: where D > N they use a copy that is stored by column.
    """

    def __init__(self, X: Any, weights: Array, intercept: bool) -> None:
        super().__init__(X, weights, intercept)
        self._rows = sparse.csr_array(X, copy=True)  # the caller may write into X
        self._rows.data *= np.repeat(self._roots, np.diff(self._rows.indptr))
        squares = np.bincount(self._rows.indices, np.square(self._rows.data), X.shape[1])
        self.squares = squares.astype(np.float64)
        mean = self._rows.T @ self._roots / self.count
        self.center = mean if intercept else np.zeros(X.shape[1])

    @cached_property
    def _columns(self) -> Any:
        return self._rows.tocsc()

    def _stored_for(self, columns: Array) -> Any:
        wide = self.shape[1] > self.shape[0] and columns.shape[1] >= _WIDE
        return self._columns if wide else self._rows

    @property
    def stored(self) -> int:
        """How many numbers a product with A reads."""
        return int(self._rows.nnz)

    def forward(self, columns: Array) -> Array:
        """A V = √S X V − √s (x̄ᵀV)."""
        product: Array = self._stored_for(columns) @ columns
        if self.intercept:
            product -= np.outer(self._roots, self.center @ columns)
        return product

    def adjoint(self, columns: Array) -> Array:
        """Aᵀ U = (√S X)ᵀ U − x̄ (√sᵀU)."""
        product: Array = self._stored_for(columns).T @ columns
        if self.intercept:
            product -= np.outer(self.center, self._roots @ columns)
        return product

    @cached_property
    def gram(self) -> Array:
        """AᵀA = XᵀSX − Σs x̄x̄ᵀ."""
        gram: Array = (self._rows.T @ self._rows).toarray()
        return gram - self.count * np.outer(self.center, self.center)

    def outer(self, scale: Array) -> Array:
        """A diag(scale) Aᵀ, some rows at a time: the product of sparse matrices is nearly full."""
        rows = self._rows
        columns = (rows @ sparse.diags_array(scale)).T.tocsr()  # (D, N)
        cross = rows @ (scale * self.center) - self._roots * (scale @ self.center**2) / 2
        result = np.empty((self.shape[0], self.shape[0]))
        for part in blocks(self.shape[0], self.shape[0]):
            result[part] = (rows[part] @ columns).toarray()
            result[part] -= np.outer(cross[part], self._roots) + np.outer(self._roots[part], cross)
        return result

    def column_quadratics(self, kernel: Array) -> Array:
        """The diagonal of Aᵀ M A: M meets a block of columns at a time, and they stay sparse."""
        columns = self._columns.T  # (D, N)
        result = np.empty(self.shape[1])
        for part in blocks(self.shape[1], self.shape[0]):
            block = columns[part]
            result[part] = block.multiply(block @ kernel).sum(axis=1)
        if self.intercept:
            seen = kernel @ self._roots  # (N,)
            result += self.center * (self.center * (self._roots @ seen) - 2 * (columns @ seen))
        return result


def make_design(X: Any, weights: Array, intercept: bool) -> Design:
    """The design of dense or sparse rows."""
    kind = SparseDesign if sparse.issparse(X) else DenseDesign
    return kind(X, weights, intercept)
