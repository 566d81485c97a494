"""The regularisation: a dropout rate and a prior precision."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True)
class DropoutPrior:
    """The prior w ~ N(0, σ²/λ0 I), with each feature of each row dropped with probability f.

    Together they act as a Gaussian prior that depends on the size of the features but not on the
    targets.

    Attributes:
        drop: f in [0, 1).
        precision: λ0 >= 0, in units of the noise precision.
    """

    drop: float
    precision: float

    def __post_init__(self) -> None:
        if not 0 <= self.drop < 1:
            raise ValueError(
                f"drop: expected a rate in [0, 1), got {self.drop}; the share of features to drop"
            )
        if not 0 <= self.precision < math.inf:
            raise ValueError(
                f"prior_precision: expected a finite number >= 0, got {self.precision}; larger "
                "values shrink more"
            )

    @property
    def keep(self) -> float:
        """1 − f."""
        return 1 - self.drop

    @property
    def flat(self) -> bool:
        """Whether nothing is regularised, as in least squares."""
        return self.drop == 0 and self.precision == 0

    def penalty(self, squares: FloatArray) -> FloatArray:
        """Return λ0 + f(1 − f) c_d, the diagonal that Herlau et al. 2022, eq. 14, adds.

        Args:
            squares: c_d = Σ_i x_id², the diagonal of XᵀX: `(D,)`.
        """
        if self.precision == 0 and not squares.all():
            columns = np.flatnonzero(squares == 0)
            raise ValueError(
                "X: expected features that are not zero in every row, since with "
                f"prior_precision=0 nothing else determines their weights, got {len(columns)} "
                f"such columns, the first {columns[0]}; remove them or set prior_precision > 0"
            )
        return self.precision + self.drop * self.keep * squares

    def proper_penalty(self, squares: FloatArray) -> FloatArray:
        """Return the penalty; raise an error if the prior is flat, f = λ0 = 0."""
        if self.flat:
            raise ValueError(
                "prior_precision: expected > 0 where drop is 0, got 0, which leaves the weights "
                "to the data alone: set one of the two, or give more rows than features and "
                "solver='cholesky'"
            )
        return self.penalty(squares)
