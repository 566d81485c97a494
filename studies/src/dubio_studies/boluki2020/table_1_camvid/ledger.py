"""Every number of CamVid in table 1 with ours."""

from dubio_studies.boluki2020.table_1_camvid.claims import METRICS, PUBLISHED, SMALLER
from dubio_studies.framework.ledger import Cause, Cell, Number, RowsOf
from dubio_studies.scenes.reading import values

STUDY = "boluki2020/table-1-camvid"
AS_IN_CODE = {
    "accuracy": None,
    "mean IoU": "mean IoU with void in unions",
    "mean PAvgPU": "mean PAvgPU of bands",
}
"""The score of the authors' public code, where it is another."""


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """In percent; the authors' protocol is how their code scores our predictions."""
    rows = rows_of(STUDY)
    listed = []
    for method, numbers in PUBLISHED.items():
        for metric, published in zip(METRICS, numbers, strict=True):
            code = AS_IN_CODE[metric]
            listed.append(
                Cell(
                    "table 1",
                    f"CamVid, {method.name}, {metric}",
                    Number(published),
                    higher=True,
                    ours=Number.of(values(rows, method, metric), 100),
                    authors=Number.of(values(rows, method, code), 100) if code else None,
                    cause=Cause(SMALLER.cause, "gal2017/table-1"),
                )
            )
    return listed
