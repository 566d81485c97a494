"""Writes the report: an overview and a page for every study that was run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from dubio_studies.catalogue import Entry
from dubio_studies.framework.store import write_whole
from dubio_studies.report.ledger import ledger
from dubio_studies.report.ledger_page import NAME, ledger_page
from dubio_studies.report.pages import overview, page_name, study_page
from dubio_studies.report.results import Result, collect, look, misfit


@final
@dataclass(frozen=True)
class Site:
    """A report that was written.

    Attributes:
        index: Its first page; None if nothing could be written.
        results: What it says.
        problems: Files that could not be used.
    """

    index: Path | None
    results: Sequence[Result]
    problems: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "index": None if self.index is None else str(self.index),
            "studies": [result.as_dict() for result in self.results],
            "problems": list(self.problems),
        }


def write_site(rows: Path, output: Path) -> Site:
    """Write all pages from the rows in a folder; they need nothing else, nor the network."""
    results, problems = collect(rows)
    for place, result in enumerate(results):
        known = len(problems)
        if not write_page(result, output, problems):
            unusable = [*result.unusable, *problems[known:]]
            results[place] = Result(result.entry, None, result.started, unusable)
    index = output / "index.html"
    write_whole(index, overview(results))
    looked_at = [r for r in results if r.shown or r.started or r.unusable]
    without = sum(bool(r.entry.module) for r in results) - len(looked_at)
    lines = ledger(looked_at, problems)  # the code of studies without a run is not loaded
    write_whole(output / NAME, ledger_page(lines, without))
    return Site(index, results, problems)


def write_study(entry: Entry, rows: Path, output: Path) -> Site:
    """Write the page of one study; no other study is read."""
    problems: list[str] = []
    result = look(entry, rows, problems)
    if not write_page(result, output, problems):
        done = ", ".join(map(str, result.started))
        far = f", and one with {done} pieces" if done else ""
        if not problems:
            problems.append(f"{entry.id}: expected a finished run in {rows}, got none{far}.")
        return Site(None, [result], problems)
    return Site(output / page_name(entry), [result], problems)


def write_page(result: Result, output: Path, problems: list[str]) -> bool:
    """Write the page of a study; if none can be made, that of an earlier report is removed."""
    path, page = output / page_name(result.entry), None
    if result.shown is not None:
        try:
            page = study_page(result, result.shown)
        except Exception as error:  # rows that do not fit today's code
            problems.append(misfit(result.entry.id, error))
    if page is None:
        path.unlink(missing_ok=True)
        return False
    write_whole(path, page)
    return True
