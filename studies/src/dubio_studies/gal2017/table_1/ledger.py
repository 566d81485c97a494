"""Every number of table 1 with ours."""

from dubio_studies.framework.ledger import Cause, Cell, Number, RowsOf
from dubio_studies.gal2017.table_1.claims import IOU, PUBLISHED, SMALLER
from dubio_studies.scenes.reading import values

STUDY = "gal2017/table-1"


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """Mean IoU in percent."""
    rows = rows_of(STUDY)
    return [
        Cell(
            "table 1",
            f"CamVid, {method.name}, {IOU}",
            Number(published),
            higher=True,
            digits=1,
            ours=Number.of(values(rows, method, IOU), 100),
            cause=Cause(f"{SMALLER}.", "uncertainty/camvid-size"),
        )
        for method, published in PUBLISHED.items()
    ]
