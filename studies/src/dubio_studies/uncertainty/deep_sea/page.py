"""What is shown of the divers: rows in, pictures out. Nothing here trains."""

from dubio.report.exhibits import Plot, Table
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page
from dubio_studies.uncertainty.deep_sea.claims import CLAIMS


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows."""
    return []


PAGE = Page(CLAIMS, exhibits)
