"""The ledger as a page of the report."""

from collections import Counter
from collections.abc import Sequence
from html import escape

from dubio_studies.catalogue import find
from dubio_studies.framework.ledger import OUTCOMES
from dubio_studies.report.ledger import LedgerLine
from dubio_studies.report.pages import chip, page, page_name, template

NAME = "ledger.html"
HEADS = ("", "number and why", "published", "authors’ protocol", "ours", "gain")
LEFT_OUT = (
    "The numbers of {} studies without a run are left out; <code>dubio ledger</code> has them."
)


def ledger_page(lines: Sequence[LedgerLine], without: int = 0) -> str:
    """All numbers, each with a link to its study's page.

    Args:
        lines: The ledger.
        without: How many studies have no run, so that their numbers are left out.
    """
    counts = Counter(line.cell.outcome for line in lines)
    summary = "".join(f"<li><b>{counts[outcome]}</b>{chip(outcome)}</li>" for outcome in OUTCOMES)
    body = template("ledger.html").substitute(
        count=str(len(lines)),
        summary=summary,
        left_out=LEFT_OUT.format(without) if without else "",
        heads="".join(f"<th>{head}</th>" for head in HEADS),
        lines="".join(map(line_html, lines)),
    )
    return page("dubio: the ledger", body)


def line_html(line: LedgerLine) -> str:
    """A row of the table."""
    _, study, table, name, *numbers, scale, _ = line.texts()
    label = f"<b>{escape(name)}</b><br><code>{study}</code>, {escape(table)}"
    if line.scale:
        label += f", scale {scale}"
        label = f'<a href="{page_name(find(study))}">{label}</a>'
    why = f'<p class="note">{escape(line.cause_text)}</p>' if line.cause_text else ""
    cells = "".join(
        f'<td class="number" data-head="{head}">{escape(text)}</td>'
        for head, text in zip(HEADS[2:], numbers, strict=True)
    )
    return f"<tr><td>{chip(line.cell.outcome)}</td><td>{label}{why}</td>{cells}</tr>"
