"""A table and a claim."""

from dubio.report.exhibits import Table
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page


def exhibits(rows: Rows) -> list[Table]:
    return [Table("Dice <&>", ("number", "sum"), [["1", "**2**"]])]


PAGE = Page(
    [Claim("Dice <roll>.", "yes", "always", lambda rows: Finding("yes", agrees=True))], exhibits
)
