"""The tables, and values of them as they are printed. Nothing here computes."""

import math
from collections.abc import Collection
from statistics import fmean
from typing import NamedTuple, Self, final

from dubio_studies.framework.standard_errors import standard_error

TABLES = (
    "boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht"
)  # fmt: skip
TITLES = {
    "boston": "Boston housing",
    "concrete": "Concrete strength",
    "energy": "Energy efficiency",
    "kin8nm": "Kin8nm",
    "naval": "Naval propulsion",
    "power": "Power plant",
    "protein": "Protein structure",
    "wine": "Red wine quality",
    "yacht": "Yacht hydrodynamics",
}
LONGEST = ("protein", "naval", "power", "kin8nm")  # to compute
LONG = "long "  # before the name of a method whose networks are trained for longer
PRINTED = 0.005  # of published values: two decimals


def longest_first(tables: Collection[str]) -> list[str]:
    """Some of the tables, in the order in which to compute them."""
    return [name for name in dict.fromkeys((*LONGEST, *TABLES)) if name in tables]


def as_printed(tables: Collection[str]) -> list[str]:
    """Some of the tables, in the order of the papers."""
    return [name for name in TABLES if name in tables]


@final
class Value(NamedTuple):
    """A mean over splits with its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: list[float]) -> Self | None:
        """That of values by split; None if there are none."""
        if not values:
            return None
        return cls(fmean(values), standard_error(values) or 0.0)

    def margin(self, other: "Value") -> float:
        """How much two means may differ by chance (two standard errors) and rounding."""
        return 2 * math.hypot(self.error, other.error) + PRINTED

    def shown(self, digits: int) -> str:
        """As it stands in a table."""
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}".replace("-", "−")
