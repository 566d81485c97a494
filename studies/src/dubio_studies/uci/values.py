"""Values of the tables as they are printed: means with standard errors."""

import math
from statistics import fmean
from typing import NamedTuple, Self, final

from dubio_studies.framework.standard_errors import standard_error

PRINTED = 0.005  # of published values: two decimals


@final
class Value(NamedTuple):
    """A mean over splits with its standard error, which a single split does not have."""

    mean: float
    error: float | None

    @classmethod
    def of(cls, values: list[float]) -> Self | None:
        """That of values by split; None if there are none."""
        if not values:
            return None
        return cls(fmean(values), standard_error(values))

    def margin(self, other: "Value") -> float:
        """How much two means may differ by chance (two standard errors) and rounding."""
        return 2 * math.hypot(self.error or 0.0, other.error or 0.0) + PRINTED

    def shown(self, digits: int) -> str:
        """As it stands in a table."""
        error = "" if self.error is None else f" ± {self.error:.{digits}f}"
        return f"{self.mean:.{digits}f}{error}".replace("-", "−")
