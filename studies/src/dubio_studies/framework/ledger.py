"""Numbers that a paper prints in its tables, and ours beside them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple, Self, final, get_args

from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error

RowsOf = Callable[[str], Rows]
"""The rows of the run that is shown for a study, by its id; none if it was not run."""

LedgerOutcome = Literal["behind", "holds", "goes further", "not run"]
OUTCOMES: tuple[LedgerOutcome, ...] = get_args(LedgerOutcome)


@final
class Number(NamedTuple):
    """A mean and its standard error; None where nothing is known of it."""

    mean: float
    error: float | None = None

    @classmethod
    def of(cls, values: Sequence[float], factor: float = 1.0) -> Self | None:
        """That of values, each times a factor; None if there are none."""
        scaled = [factor * value for value in values]
        return cls(fmean(scaled), standard_error(scaled)) if scaled else None

    def shown(self, digits: int) -> str:
        """As it stands in a table."""
        text = f"{self.mean:.{digits}f}"
        if self.error is not None:
            text += f" ± {self.error:.{digits}f}"
        return text.replace("-", "−")


@final
@dataclass(frozen=True)
class Cause:
    """Why a number is behind the published one, or is missing, in at most two sentences.

    Attributes:
        text: The sentences.
        shown_by: The study whose rows show it; empty if no run does.
    """

    text: str
    shown_by: str = ""


@final
@dataclass(frozen=True)
class Cell:
    """A number of a table.

    Attributes:
        table: Its table, such as ``table 3``.
        name: Its row and column.
        published: The number as printed, with its standard error where one is given or follows
            from the number of cases.
        higher: Whether more is better.
        digits: Decimals that are printed.
        ours: By our protocol: that of the paper where we have no other.
        authors: By the authors' protocol, where that is another.
        cause: Why it is behind in the run that the page calls examined.
        absent: Why it was not run, if there is more to say than that.
    """

    table: str
    name: str
    published: Number
    higher: bool
    digits: int = 2
    ours: Number | None = None
    authors: Number | None = None
    cause: Cause | None = None
    absent: Cause | None = None

    @property
    def compared(self) -> Number | None:
        """The number that is judged: by the authors' protocol if that was run, else ours."""
        return self.ours if self.authors is None else self.authors

    @property
    def gain(self) -> float | None:
        """By how much it is better than published; negative if it is worse."""
        found = self.compared
        if found is None:
            return None
        return (1 if self.higher else -1) * (found.mean - self.published.mean)

    @property
    def margin(self) -> float:
        """What chance and rounding explain: two standard errors, of both, and half a digit."""
        found = self.compared
        errors = [0.0 if n is None else n.error or 0.0 for n in (found, self.published)]
        return 2 * math.hypot(*errors) + 0.5 * 10.0**-self.digits

    @property
    def distance(self) -> float | None:
        """The gain in margins; a cell with one above −1 is not behind."""
        return None if self.gain is None else round(self.gain / self.margin, 6)

    @property
    def outcome(self) -> LedgerOutcome:
        """What the comparison comes to."""
        if (distance := self.distance) is None:
            return "not run"
        if distance < -1:
            return "behind"
        return "goes further" if distance > 1 else "holds"


def no_cells(rows_of: RowsOf) -> Sequence[Cell]:
    """For a study of a figure, or of our own: no paper prints its numbers."""
    return ()
