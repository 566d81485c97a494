"""The predictive distribution in closed form: Student's t, or a mixture of them over masks.

`dubio.Predictive` averages over draws of a network, in torch. Here the weights are integrated out,
moments are exact, and numbers go in and out as scikit-learn's do, so this is a class of its own
with the same names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dubio.regression.prior import FloatArray


@final
@dataclass(frozen=True, eq=False, repr=False)
class StudentTMixture:
    """The distribution y | x of each row: an equal mixture of Student's t over S masks.

    Without dropout at test time S = 1 and everything is exact. Otherwise the moments are exact,
    over all masks, and `log_prob`, `quantile`, `interval` and `sample` use the S masks of each row.

    Shapes: `B` rows; `*E` is empty for one target and `(K,)` for several, which are independent
    given the mask.

    Attributes:
        freedom: The degrees of freedom, common to all.
        location: The locations, `(S, B, *E)`.
        scale: The scales, `(S, B, *E)`.
        mean: E[y | x], `(B, *E)`.
        epistemic: The variance from uncertain weights and masks, `(B, *E)`.
        aleatoric: The expected variance of the noise, `(B, *E)`.
    """

    freedom: float
    location: FloatArray
    scale: FloatArray
    mean: FloatArray
    epistemic: FloatArray
    aleatoric: FloatArray

    def __repr__(self) -> str:
        masks, shape = len(self.location), self.mean.shape
        return f"StudentTMixture(freedom={self.freedom:g}, masks={masks}, mean={shape})"

    @property
    def variance(self) -> FloatArray:
        """Var[y | x] = epistemic + aleatoric, `(B, *E)`; infinite up to 2 degrees of freedom."""
        return self.epistemic + self.aleatoric

    @property
    def std(self) -> FloatArray:
        """The square root of `variance`, `(B, *E)`."""
        return np.sqrt(self.variance)

    def quantile(self, q: float | Sequence[float] | FloatArray) -> FloatArray:
        """Return quantiles of every element of the target.

        Args:
            q: One level, which gives `(B, *E)`, or Q of them, which give `(Q, B, *E)`.
        """
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim > 1 or not bool(((levels >= 0) & (levels <= 1)).all()):
            raise ValueError(
                f"q: expected levels in [0, 1], got {q}; pass a number or a sequence of them"
            )
        quantiles = [self._quantile(level) for level in levels.reshape(-1)]
        return np.stack(quantiles).reshape(*levels.shape, *self.mean.shape)

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the central interval of probability `level`: low and high, `(B, *E)` each."""
        if not 0 < level < 1:
            raise ValueError(
                f"level: expected a probability in (0, 1), got {level}; 0.95 is a common choice"
            )
        low, high = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return low, high

    def log_prob(self, y: ArrayLike) -> FloatArray:
        """Return the log density of every row, joint over its targets: `(B,)`.

        Args:
            y: One target per row, `(B, *E)`.
        """
        values = np.asarray(y, dtype=np.float64)
        if values.shape != self.mean.shape:
            raise ValueError(
                f"y: expected shape {self.mean.shape}, got {values.shape}; pass the targets of the "
                "very rows that were predicted"
            )
        if np.isnan(values).any():
            raise ValueError("y: expected numbers, got NaN; remove or impute the missing targets")
        if not self.scale.all():
            raise ValueError(
                "log_prob: expected noise in the targets, got a posterior without any, which has "
                "no density: the model reproduces its training targets exactly"
            )
        nu = self.freedom
        scaled = (values - self.location) / self.scale  # (S, B, *E)
        logs = -(nu + 1) / 2 * np.log1p(scaled**2 / nu) - np.log(self.scale)
        constant = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2) - np.log(nu * np.pi) / 2
        joint = (logs + constant).reshape(*logs.shape[:2], -1).sum(-1)  # (S, B)
        return np.asarray(special.logsumexp(joint, axis=0) - np.log(len(joint)))

    def sample(
        self, n: int = 1, random_state: int | np.random.Generator | None = None
    ) -> FloatArray:
        """Sample n targets per row, `(n, B, *E)`, each with one of the masks."""
        rng = np.random.default_rng(random_state)
        rows = np.arange(self.location.shape[1])
        picks = rng.integers(len(self.location), size=(n, len(rows)))  # (n, B)
        noise = rng.standard_t(self.freedom, size=(n, *self.mean.shape))
        return np.asarray(self.location[picks, rows] + self.scale[picks, rows] * noise)

    def _quantile(self, q: float) -> FloatArray:
        """Solve 1/S Σ_s F((y − location_s) / scale_s) = q for y by bisection between the parts.

        F keeps its relative precision in the lower half; the upper half is mirrored to it.
        """
        sign = 1.0 if q <= 0.5 else -1.0
        location, q = sign * self.location, min(q, 1 - q)
        if q == 0:
            return np.full_like(self.mean, -sign * np.inf)
        parts = location + self.scale * special.stdtrit(self.freedom, q)  # (S, B, *E)
        low, high = parts.min(0), parts.max(0)
        eps = np.finfo(np.float64).eps
        while bool((high - low > 2 * eps * np.maximum(self.scale.min(0), np.abs(high))).any()):
            middle = low + (high - low) / 2
            below = special.stdtr(self.freedom, (middle - location) / self.scale).mean(0) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(sign * high)
