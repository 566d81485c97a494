"""Every number of table 3, the authors' and those of Blundell et al., with ours."""

from dubio_studies.clark2022.causes import BEHIND, STEPS
from dubio_studies.clark2022.legend import NAMES
from dubio_studies.clark2022.table_3.published import AUTHORS, BLUNDELL
from dubio_studies.clark2022.table_3.reading import errors, single_softmax
from dubio_studies.framework.ledger import Cause, Cell, Number, RowsOf
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import share_error

STUDY = "clark2022/table-3"
PROTOCOL = "clark2022/kl-terms"
VARIANTS = {"gaussian": "authors", "mixture": "authors mixture"}  # there
TEST_DIGITS = 10_000
HEADS = {"authors": AUTHORS, "Blundell et al.": BLUNDELL}


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """Errors in percent; a published one has the standard error of its test digits."""
    rows = single_softmax(rows_of(STUDY))

    def cell(head: str, method: str, width: int, value: float) -> Cell:
        authors = by_the_authors(rows_of(PROTOCOL), method, width) if head == "authors" else None
        return Cell(
            "table 3",
            f"{NAMES[method]}, {width} units, {head}",
            Number(value, 100 * share_error(value / 100, TEST_DIGITS)),
            higher=False,
            ours=Number.of(errors(rows, method, width)),
            authors=authors,
            cause=causes(method) if authors is None else Cause(STEPS, PROTOCOL),
        )

    return [
        cell(head, method, width, value)
        for head, table in HEADS.items()
        for method, values in table.items()
        for width, value in values.items()
    ]


def by_the_authors(rows: Rows, method: str, width: int) -> Number | None:
    """By their weights of the KL and all else of their protocol."""
    own = rows.where(variant=VARIANTS.get(method), loss="cross-entropy", width=width)
    return Number.of(own.where(metric="error", reading="draws").values(), 100)


def causes(method: str) -> Cause | None:
    """What the claims say of a method that is behind, shown by a tenth of the KL."""
    known = BEHIND.get(method)
    return None if known is None else Cause(known.cause, STUDY)
