"""Writes the report: an overview and a page for every study that was run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from dubio_studies.catalogue import Entry
from dubio_studies.framework.store import write_whole
from dubio_studies.report.pages import overview, page_name, study_page
from dubio_studies.report.results import Result, choose, collect, misfit, runs_of


@final
@dataclass(frozen=True)
class Site:
    """A report that was written.

    Attributes:
        index: Its first page.
        results: What it says.
        problems: Files that could not be used.
    """

    index: Path
    results: Sequence[Result]
    problems: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "index": str(self.index),
            "studies": [result.as_dict() for result in self.results],
            "problems": list(self.problems),
        }


def write_site(rows: Path, output: Path) -> Site:
    """Write all pages from the rows in a folder; they need nothing else, nor the network."""
    results, problems = collect(rows)
    for place, result in enumerate(results):
        if result.shown is not None:
            try:
                page = study_page(result, result.shown)
            except Exception as error:  # as in collect
                problems.append(misfit(result.entry, error))
                results[place] = Result(result.entry)
            else:
                write_whole(output / page_name(result.entry), page)
    index = output / "index.html"
    write_whole(index, overview(results))
    return Site(index, results, problems)


def write_page(entry: Entry, rows: Path, output: Path) -> Site:
    """Write the page of one study; no other study is read."""
    problems: list[str] = []
    result = choose(entry, entry.load(), runs_of(entry, rows), problems)
    page = output / page_name(entry)
    if result.shown is None:
        problems.append(f"{entry.id}: expected a finished run below {rows}, found none.")
    else:
        write_whole(page, study_page(result, result.shown))
    return Site(page, [result], problems)
