"""Writes the report: an overview and a page for every study that was run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from dubio.studies.report.pages import overview, page_name, study_page
from dubio.studies.report.results import Result, collect, misfit
from dubio.studies.store import write_whole


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
                page = study_page(result.entry, result.shown)
            except Exception as error:  # as in collect
                problems.append(misfit(result.entry, error))
                results[place] = Result(result.entry, None)
            else:
                write_whole(output / page_name(result.entry), page)
    index = output / "index.html"
    write_whole(index, overview(results))
    return Site(index, results, problems)
