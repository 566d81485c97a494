"""The ledger: every number in the papers' tables, sorted by how far ours are from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from dubio.report.tables import table
from dubio_studies.framework.ledger import Cause, Cell, LedgerOutcome, Number
from dubio_studies.framework.rows import Rows
from dubio_studies.report.results import Code, Result, misfit

COLUMNS = (
    "outcome", "study", "table", "number", "published", "authors' protocol", "ours", "gain",
    "scale", "cause",
)  # fmt: skip
COLOURS: dict[LedgerOutcome, str] = {
    "behind": "\033[31m",
    "holds": "\033[32m",
    "goes further": "\033[34m",
    "not run": "\033[2m",
}
UNEXPLAINED = Cause("Nobody has looked into it yet.")
SMOKE = Cause("A smoke run only tests the code.")


@final
@dataclass(frozen=True)
class LedgerLine:
    """A number of the ledger.

    Attributes:
        study: The study's id.
        scale: Of the run that ours is from; empty if there is none.
        cell: The number.
        cause: Why it is behind or was not run; None if neither.
        code: Which code of the study has made the rows; None if there are none.
        altered: Whether the run has other settings than those that come with the scale.
    """

    study: str
    scale: str
    cell: Cell
    cause: Cause | None
    code: Code | None = None
    altered: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        cell = self.cell
        return {
            "study": self.study,
            "table": cell.table,
            "cell": cell.name,
            "published": as_pair(cell.published),
            "authors_protocol": as_pair(cell.authors),
            "ours": as_pair(cell.ours),
            "better": "higher" if cell.higher else "lower",
            "gain": cell.gain,
            "margin": cell.margin,
            "scale": self.scale or None,
            "altered": self.altered,
            "code": self.code,
            "verdict": cell.outcome,
            "cause": None if self.cause is None else self.cause.text,
            "shown_by": (self.cause.shown_by or None) if self.cause else None,
        }

    def texts(self) -> list[str]:
        """The cells of a row, as `COLUMNS` names them."""
        cell = self.cell
        gain = "–" if cell.gain is None else f"{cell.gain:+.{cell.digits}f}".replace("-", "−")
        return [
            cell.outcome,
            self.study,
            cell.table,
            cell.name,
            *(
                "–" if number is None else number.shown(cell.digits)
                for number in (cell.published, cell.authors, cell.ours)
            ),
            gain,
            self.scale_text,
            "" if self.cause is None else self.cause_text,
        ]

    @property
    def scale_text(self) -> str:
        """The scale, and whether settings are others or the rows of an earlier version."""
        other = ", other settings" if self.altered else ""
        return f"{self.scale or '–'}{other}{', earlier version' if self.code == 'earlier' else ''}"

    @property
    def cause_text(self) -> str:
        """The cause, and whether a run has shown it."""
        if self.cause is None:
            return ""
        if self.cell.outcome == "not run" or self.cause is UNEXPLAINED:
            return self.cause.text
        proof = f"shown by {self.cause.shown_by}" if self.cause.shown_by else "not shown by a run"
        return f"{self.cause.text} ({proof})"


def as_pair(number: Number | None) -> dict[str, float | None] | None:
    """A number for scripts."""
    return None if number is None else number._asdict()


def ledger(results: Sequence[Result], problems: list[str]) -> list[LedgerLine]:
    """All numbers, those that are furthest behind first and those that were not run last.

    Args:
        results: What was run.
        problems: Rows that could not be used are added to it; their numbers count as not run.
    """
    runs = {
        result.entry.id: result.shown
        for result in results
        if result.shown and result.shown.recipe.scale != "smoke"
    }

    def rows_of(study: str) -> Rows:
        return runs[study].rows if study in runs else Rows([])

    lines = []
    for result in results:
        if not result.entry.module:
            continue
        run = runs.get(result.entry.id)
        page = (result.entry.load() if run is None else run.study).page
        examined = run is not None and f"{run.recipe.scale}-{run.recipe.hash}" == page.examined
        try:
            cells = page.ledger(rows_of)
        except Exception as error:  # rows that do not fit today's code
            problems.append(misfit(result.entry.id, error))
            cells = page.ledger(lambda _: Rows([]))
        missing = why_not_run(result)
        for cell in cells:
            cause = cause_of(cell, missing, examined=examined)
            if run is None or cell.compared is None:
                lines.append(LedgerLine(result.entry.id, "", cell, cause))
                continue
            scale, altered = run.recipe.scale, run.is_altered
            lines.append(LedgerLine(result.entry.id, scale, cell, cause, run.code, altered))
    return sorted(lines, key=place)


def why_not_run(result: Result) -> Cause:
    """Why there is no number, unless more is known of it."""
    if result.shown is not None and result.shown.recipe.scale == "smoke":
        return SMOKE
    if result.shown is None and result.unusable:
        return Cause("There is a run that cannot be used; see the messages of this command.")
    if result.shown is None and result.started:
        return Cause(f"The run is not finished: {', '.join(map(str, result.started))} pieces.")
    return Cause("It was not run.")


def cause_of(cell: Cell, missing: Cause, *, examined: bool) -> Cause | None:
    """Why a number is behind or was not run; what was said of another run does not count."""
    if cell.outcome == "not run":
        return cell.absent or missing
    if cell.outcome == "behind":
        return cell.cause if examined and cell.cause else UNEXPLAINED
    return None


def place(line: LedgerLine) -> tuple[bool, float]:
    """By how far we are behind; then what was not run."""
    distance = line.cell.distance
    return distance is None, distance or 0.0


def as_text(lines: Sequence[LedgerLine], *, colours: bool = False) -> str:
    """The ledger as a table; causes follow it, each once.

    Args:
        lines: What it is of.
        colours: Whether to colour outcomes, for terminals.
    """
    causes: dict[str, int] = {}
    rows = []
    for line in lines:
        *cells, cause = line.texts()
        mark = f"[{causes.setdefault(cause, len(causes) + 1)}]" if cause else ""
        rows.append([*cells, mark])
    notes = "\n".join(f"[{number}] {cause}" for cause, number in causes.items())
    text = table(COLUMNS, rows)
    if colours:
        head, rule, *body = text.split("\n")
        shaded = (
            f"{COLOURS[own.cell.outcome]}{row}\033[0m" for own, row in zip(lines, body, strict=True)
        )
        text = "\n".join([f"\033[1m{head}\033[0m", rule, *shaded])
    return f"{text}\n\n{notes}".strip()
