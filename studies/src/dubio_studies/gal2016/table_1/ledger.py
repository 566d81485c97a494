"""Every number of table 1, and of the authors' newer run, with ours."""

from collections.abc import Iterator

from dubio_studies.framework.ledger import Cause, Cell, Number, RowsOf
from dubio_studies.framework.rows import Rows
from dubio_studies.gal2016.table_1.published import LOG_LIKELIHOOD, RMSE, YEAR
from dubio_studies.uci.tables import TABLES, TITLES

STUDY = "gal2016/table-1"
HEADS = {"rmse": "RMSE", "log-likelihood": "log-likelihood"}
COLUMNS = {"vi": "VI", "pbp": "PBP", "dropout": "Dropout"}
OTHERS = Cause("dubio does not have this method.")
NO_YEAR = Cause("We do not have the data of Year Prediction MSD.")


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """Table by table: the paper's three columns, then the grid of the authors' repository."""
    rows = rows_of(STUDY)
    return [cell for metric in HEADS for cell in of_metric(rows, metric)]


def of_metric(rows: Rows, metric: str) -> Iterator[Cell]:
    """The numbers of a metric."""
    higher = metric == "log-likelihood"
    published = LOG_LIKELIHOOD if higher else RMSE
    for name in TABLES:
        row = published[name]

        def ours(protocol: str, name: str = name) -> Number | None:
            return Number.of(rows.where(table=name, protocol=protocol, metric=metric).values())

        for column, head in COLUMNS.items():
            own = column == "dropout"
            yield Cell(
                "table 1",
                f"{TITLES[name]}, {head}, {HEADS[metric]}",
                Number(*getattr(row, column)),
                higher,
                ours=ours("clean") if own else None,
                authors=ours("paper") if own else None,
                absent=None if own else OTHERS,
            )
        trained = ours("long training")
        search = "grid search" if trained is None else "grid search (ours shorter)"
        yield Cell(
            "authors' repository",
            f"{TITLES[name]}, {search}, {HEADS[metric]}",
            Number(*row.grid),
            higher,
            digits=5 if name == "naval" and not higher else 2,
            ours=ours("clean"),
            authors=trained or ours("long grid") or ours("grid"),
        )
    for column, head in COLUMNS.items():
        absent = NO_YEAR if column == "dropout" else OTHERS
        number = Number(YEAR[metric][column])
        name = f"Year Prediction MSD, {head}, {HEADS[metric]}"
        yield Cell("table 1", name, number, higher, digits=3, absent=absent)
