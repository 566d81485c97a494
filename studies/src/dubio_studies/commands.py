"""The commands that studies add to ``dubio``: ``list``, ``run``, ``report``, ``ledger``, ``demo``.

`dubio.cli` finds them by the entry points ``dubio.commands``.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dubio.cli import Failure, natural, positive, print_json, subparser
from dubio_studies import catalogue
from dubio_studies.catalogue import FAMILIES, Entry, UnknownStudyError, find
from dubio_studies.framework.options import add_options, configure
from dubio_studies.framework.study import SCALES

RESULTS = Path("results")
PAGES = Path("report")
EXAMPLE = "gal2016/table-1"


def list_studies(words: Sequence[str]) -> int:
    """List every table and figure of the papers: what there is, scales and cost."""
    parser = subparser(list_studies, "list")
    parser.add_argument("--json", action="store_true", help="as JSON, for scripts")
    if parser.parse_args(words).json:
        print_json([entry.as_dict() for entry in catalogue.ENTRIES])
        return 0
    width = max(len(entry.id) for entry in catalogue.ENTRIES)
    indent = f"  {'':<{width}}  {'':<18}  "
    for name, family in FAMILIES.items():
        print(f"\n{name}  {family.citation or family.title}")
        if family.citation:
            print(f"  {family.title}")
        for entry in catalogue.ENTRIES:
            if entry.family == name:
                print(f"  {entry.id:<{width}}  {entry.status:<18}  {entry.card.title}")
                print(f"{indent}{', '.join(entry.card.covers)}: {entry.card.about}")
                if entry.card.cost:
                    cost = ", ".join(f"{scale} {entry.card.cost[scale]}" for scale in SCALES)
                    print(f"{indent}takes about: {cost}")
    print("\n'dubio run STUDY' runs one, 'dubio report' makes pages of all runs.")
    return 0


def run_study(words: Sequence[str]) -> int:
    """Run a study, or go on with it: finished pieces are never computed again."""
    parser = subparser(run_study, "run", usage="dubio run STUDY [options]")
    add = parser.add_argument
    add("study", metavar="STUDY", help=f"such as {EXAMPLE}; see 'dubio list'")
    scales = "smoke: seconds; small: minutes to hours; paper: the full protocol [small]"
    add("--scale", choices=SCALES, default="small", help=scales)
    add("--jobs", type=positive, default=1, metavar="N", help="processes [1]")
    add("--seed", type=natural, default=0, metavar="N", help="of all noise [0]")
    engines = "local, dask, ray (on this machine), dask=ADDRESS or ray=ADDRESS [local]"
    add("--engine", default="local", metavar="ENGINE", help=engines)
    add("--output", type=Path, default=RESULTS, metavar="DIR", help=f"for the rows [{RESULTS}]")
    add("--json", action="store_true", help="say what was done as JSON")
    entry = entry_of(words, parser)
    study = entry.load() if entry else None
    if study is not None:
        add_options(parser, study.computation.scales)
    options = parser.parse_args(words)
    assert study is not None  # else parse_args has shown help or an error

    from dubio_studies.framework.engine import Engine, EngineError
    from dubio_studies.framework.running import PiecesFailed, run
    from dubio_studies.framework.store import StoreError

    try:
        config = configure(study.computation.scales[options.scale], options)
        engine = Engine.parse(options.engine)
    except ValueError as error:
        parser.error(str(error))
    where: dict[str, Any] = {"root": options.output, "engine": engine, "jobs": options.jobs}
    try:
        done = run(study, options.scale, config, seed=options.seed, **where)
    except (StoreError, EngineError, PiecesFailed) as error:
        raise Failure(error) from error
    if options.json:
        counts = {"rows": len(done.rows), "computed": done.computed, "stored": done.stored}
        print(json.dumps({"study": study.id, "folder": str(done.folder), **counts}))
    else:
        print(
            f"{study.id}: {len(done.rows)} rows in {done.folder} "
            f"({done.computed} pieces computed, {done.stored} were stored)"
        )
    return 0


def entry_of(words: Sequence[str], parser: argparse.ArgumentParser) -> Entry | None:
    """The study that is asked for; it comes first, since its options depend on it."""
    if not words or words[0].startswith("-"):
        if not {"-h", "--help"} & set(words):
            parser.error(f"expected a study first, such as 'dubio run {EXAMPLE}'.")
        return None
    return found(words[0], parser)


def found(name: str, parser: argparse.ArgumentParser) -> Entry:
    """The study of this name, if there is code for it."""
    try:
        entry = find(name)
        if not entry.module:
            entry.load()
    except UnknownStudyError as error:
        parser.error(str(error))
    return entry


def write_report(words: Sequence[str]) -> int:
    """Write a site of pages about all runs, or the page of one study, from stored rows alone."""
    parser = subparser(write_report, "report")
    add = parser.add_argument
    add("study", nargs="?", metavar="STUDY", help="write its page alone; no other study is read")
    add("--rows", type=Path, default=RESULTS, metavar="DIR", help=f"the runs [{RESULTS}]")
    add("--output", type=Path, default=PAGES, metavar="DIR", help=f"for the pages [{PAGES}]")
    add("--json", action="store_true", help="the verdicts as JSON")
    options = parser.parse_args(words)
    entry = None if options.study is None else found(options.study, parser)

    from dubio_studies.framework.store import StoreError
    from dubio_studies.report.site import write_site, write_study

    check_folder(options.rows)
    try:
        if entry is None:
            site = write_site(options.rows, options.output)
        else:
            site = write_study(entry, options.rows, options.output)
    except StoreError as error:
        raise Failure(error) from error
    if options.json:
        print_json(site.as_dict())
    elif site.index is not None:
        print(f"open {site.index.resolve().as_uri()}")
    for problem in site.problems:
        print(f"dubio: {problem}", file=sys.stderr)
    return 1 if site.problems else 0


def check_folder(rows: Path) -> None:
    """Refuse what cannot hold runs."""
    if not rows.is_dir():
        raise Failure(
            f"--rows: expected a folder with runs, got {rows}, which is none; run a study first, "
            f"or name another."
        )
    from dubio_studies.report.results import holds_a_run

    if not any(map(holds_a_run, rows.glob("*/*/*-*"))):
        raise Failure(
            f"--rows: expected a folder with runs, such as {EXAMPLE}/small-1a2b3c4d, got {rows}, "
            "which has none; run a study first, or name the folder that contains those of papers."
        )


def show_ledger(words: Sequence[str]) -> int:
    """Print every number of the papers' tables next to ours, the furthest behind first."""
    parser = subparser(show_ledger, "ledger")
    add = parser.add_argument
    add("study", nargs="?", default="", metavar="STUDY", help="its numbers, or those of a paper")
    add("--rows", type=Path, default=RESULTS, metavar="DIR", help=f"the runs [{RESULTS}]")
    add("--json", action="store_true", help="as JSON, for scripts")
    options = parser.parse_args(words)
    if "/" in options.study:
        found(options.study, parser)
    elif options.study and options.study not in FAMILIES:
        parser.error(f"expected a study, or one of {', '.join(FAMILIES)}, got {options.study!r}.")

    from dubio_studies.report.ledger import as_text, ledger
    from dubio_studies.report.results import collect

    check_folder(options.rows)
    results, problems = collect(options.rows, options.study.partition("/")[0])
    lines = [
        line
        for line in ledger(results, problems)
        if options.study in ("", line.study, line.study.partition("/")[0])
    ]
    if options.json:
        print_json([line.as_dict() for line in lines])
    elif lines:
        print(as_text(lines, colours=shows_colours()))
    else:
        print(f"{options.study}: no table of a paper, so there are no published numbers.")
    for problem in problems:
        print(f"dubio: {problem}", file=sys.stderr)
    return 1 if problems else 0


def shows_colours() -> bool:
    """Whether standard output is a terminal whose user wants colours (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def show_demo(words: Sequence[str]) -> int:
    """Train two small networks and write a page about what they do not know."""
    if "--live" in words:
        return show_live(words)
    from dubio_studies.demo.__main__ import main as demo

    demo(words, prog="dubio demo")
    return 0


def show_live(words: Sequence[str]) -> int:
    """Open the page to feel doubt in a browser."""
    parser = subparser(show_live, "demo")
    parser.add_argument("--live", action="store_true", required=True, help="open the live page")
    parser.parse_args(words)
    from dubio_studies.live.page import PageNotBuiltError, open_page

    try:
        print(f"open {open_page()}")
    except PageNotBuiltError as error:
        raise Failure(f"--live: {error}") from error
    return 0
