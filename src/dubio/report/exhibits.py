"""The exhibits of a page: tables and figures as values, before they are drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = tuple[float, float]  # inches; the page shows an inch as 72 pixels or a little more


@final
@dataclass(frozen=True)
class Table:
    """A table of a page; the first column names its rows.

    Attributes:
        title: What it shows.
        columns: Heads of the columns.
        rows: Cells as text; ``**…**`` around a cell makes it stand out.
        note: What a reader must know to read it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        """Raise an error for a row of another length than the heads."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"rows: expected {len(self.columns)} cells, as there are columns, got "
                    f"{len(row)} in {list(row)!r}"
                )


@final
@dataclass(frozen=True)
class Plot:
    """A figure of a page, drawn for a wide and for a narrow screen.

    Attributes:
        name: Told apart from the other figures of the page; letters, digits and hyphens.
        title: What it shows.
        description: Read aloud in place of the picture.
        draw: From a size in inches to the figure.
        wide: Size on a desk.
        narrow: Size on a phone.
        note: What a reader must know to read it.
    """

    name: str
    title: str
    description: str
    draw: Callable[[Size], "Figure"]
    wide: Size = (12.0, 5.0)
    narrow: Size = (5.0, 5.0)
    note: str = ""
