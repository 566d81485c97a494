"""Scale columns to mean 0 and variance 1, and back."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class Scaling:
    """z = (v − mean) / scale for every column.

    Attributes:
        mean: The mean of each column, `(D,)`.
        scale: Its standard deviation, `(D,)`; 1 for a column without spread.
    """

    mean: NDArray[Any]
    scale: NDArray[Any]

    @classmethod
    def of(cls, table: NDArray[Any], weights: NDArray[Any] | None) -> Self:
        """Return the scaling of a table `(N, D)` to weighted mean 0 and variance 1."""
        wide = table.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.average(wide, axis=0, weights=weights)
            scale = np.sqrt(np.average(np.square(wide - mean), axis=0, weights=weights))
        if not np.isfinite(scale).all():
            raise ValueError(
                f"expected columns whose variance fits into float64, got values up to "
                f"{np.abs(wide).max():.3g}; divide them by a constant"
            )
        rounding = 10 * np.finfo(table.dtype).eps * np.abs(mean)
        return cls(mean, np.where(scale > rounding, scale, 1.0))

    def scaled(self, table: NDArray[Any]) -> Tensor:
        """Return a table `(N, D)` in standard units, as a tensor of its precision."""
        return torch.from_numpy(((table - self.mean) / self.scale).astype(table.dtype))
