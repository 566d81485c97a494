"""Every number of table 2 with ours."""

from dubio_studies.boluki2020.table_2.published import DATASETS, LIANG, METHODS, METRICS, published
from dubio_studies.boluki2020.table_2.reading import in_table, numbers
from dubio_studies.framework.ledger import Cause, Cell, Number, RowsOf

STUDY = "boluki2020/table-2"
ERRORS = {"ml-20m": 0.2, "netflix": 0.1, "msd": 0.1}  # standard errors, by the table's caption
OF_OTHERS = ("ease",)  # published elsewhere, not in table 2
NO_DATA = Cause("We do not have this data set; the same models were compared on MovieLens 1M.")


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """In percent, data set by data set."""
    rows = rows_of(STUDY)
    return [
        Cell(
            "table 2",
            f"{DATASETS[dataset]}, {METHODS[method]}, {METRICS[metric]}",
            Number(known[metric], error),
            higher=True,
            ours=Number.of(numbers(rows, dataset, in_table(method), metric).values(), 100),
            absent=NO_DATA,
        )
        for dataset, error in ERRORS.items()
        for method, known in published(dataset).items()
        if method not in OF_OTHERS
        for metric in LIANG
        if metric in known
    ]
