"""The inverse of a large symmetric matrix, in place.

LAPACK's own in-place inverse fails in common builds beyond 2³¹ bytes, so the work is done in blocks
by matrix products.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from dubio.noise.float64 import in_float64


def negative_inverse_(matrix: Tensor, block: int = 1024) -> Tensor:
    """Turn a symmetric positive definite matrix A into −A⁻¹, in place, by the sweep operator.

    A sweep of the rows and columns k (Beaton 1964), with r for all others, does

        A_rr −= A_rk A_kk⁻¹ A_kr,   A_rk = A_rk A_kk⁻¹,   A_kk = −A_kk⁻¹,

    and after all have been swept A is −A⁻¹. Only the blocks on and above the diagonal are worked
    on, n³ multiplications and additions in all; the others are filled in at the end.

    Args:
        matrix: (n, n), written into. Only what is on and above the diagonal is read.
        block: How many rows to sweep at once. So many rows are held beside the matrix, twice.

    Returns:
        ``matrix`` itself.
    """
    for swept in _blocks(len(matrix), block):
        column = torch.cat([matrix[: swept.stop, swept], matrix[swept, swept.stop :].T])  # (n, k)
        corner = _inverse(matrix[swept, swept])
        product = column @ corner  # (n, k)
        for rows in _blocks(len(matrix), block):
            rest = slice(rows.start, None)
            matrix[rows, rest].addmm_(product[rows], column[rest].T, alpha=-1)
        matrix[: swept.start, swept] = product[: swept.start]
        matrix[swept, swept.stop :] = product[swept.stop :].T
        matrix[swept, swept] = -corner
    for rows in _blocks(len(matrix), block):
        matrix[rows.stop :, rows] = matrix[rows, rows.stop :].T
    return matrix


def _inverse(corner: Tensor) -> Tensor:
    """Return the inverse of a block on the diagonal, computed in float64."""
    upper = in_float64(corner).triu()
    factor, failed = torch.linalg.cholesky_ex(upper.T, upper=False)
    if failed or not factor.isfinite().all():
        raise ValueError(
            "matrix: expected a positive definite one, got one that is not within the precision of "
            f"{corner.dtype}; add more to its diagonal"
        )
    return torch.cholesky_inverse(factor).to(corner)


def _blocks(size: int, block: int) -> Iterator[slice]:
    return (slice(start, min(start + block, size)) for start in range(0, size, block))
