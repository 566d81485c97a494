"""From results to HTML."""

import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from dubio.report.ink import stylesheet, to_svg
from dubio.studies.catalogue import FAMILIES, PAPERS, Entry
from dubio.studies.report.results import STATUSES, Result, Shown, Status, command_of
from dubio.studies.rows import Rows
from dubio.studies.study import SCALES, Claim, Finding, Plot, Table

SIGNS: dict[Status, str] = {
    "reproduces": "✓",
    "better": "▲",
    "worse": "▼",
    "not run": "○",
    "planned": "·",
}
MEANINGS: dict[Status, str] = {
    "reproduces": "every claim holds by its rule",
    "better": "every claim holds, and ours goes further",
    "worse": "at least one claim fails its rule",
    "not run": "there is code, but no stored run",
    "planned": "there is no code yet",
}


def overview(results: Sequence[Result]) -> str:
    """The first page: every table and figure with its status."""
    counts = Counter(result.status for result in results)
    summary = "".join(
        f"<li><b>{counts[status]}</b>{chip(status)}"
        f'<span class="note">{MEANINGS[status]}</span></li>'
        for status in STATUSES
    )
    papers = "".join(
        f'<section aria-labelledby="paper-{number}">'
        f'<h2 id="paper-{number}"><span class="number">{number}</span> {escape(title)}</h2>'
        f'<ul class="entries">'
        f"{''.join(overview_entry(r) for r in results if r.entry.family == number)}"
        f"</ul></section>"
        for number, title in FAMILIES.items()
    )
    body = template("overview.html").substitute(
        summary=summary, papers=papers, version=version("dubio")
    )
    return document("dubio: what reproduces", body)


def overview_entry(result: Result) -> str:
    """One line of the overview."""
    entry, shown = result.entry, result.shown
    name = f'<code class="id">{entry.id}</code> <b>{escape(entry.title)}</b>'
    if shown is not None:
        name = f'<a href="{page_name(entry)}">{name}</a>'
        verdicts = "".join(
            f'<span title="{escape(claim.text)}">{chip(finding.verdict)}</span>'
            for claim, finding in shown.findings
        )
        detail = f'<div class="claims-row">{scale_badge(shown)}{verdicts}</div>'
    elif result.status == "not run":
        detail = f'<p class="note"><code>dubio run {entry.id}</code></p>'
    else:
        detail = ""
    return (
        f'<li class="entry {css_class(result.status)}" id="{identifier(entry)}">'
        f"{chip(result.status)}<div>{name}"
        f'<p class="note">{covers(entry)}. {escape(entry.about)}</p>{detail}</div></li>'
    )


def study_page(entry: Entry, shown: Shown) -> str:
    """The page of a study that was run."""
    study, recipe = shown.study, shown.recipe
    exhibits = "".join(
        table_html(exhibit) if isinstance(exhibit, Table) else plot_html(exhibit, identifier(entry))
        for exhibit in study.exhibits(Rows([*shown.rows, *study.backdrop()]))
    )
    deviations = [*study.deviations, *shown.departures]
    others = "".join(
        f"<li><code>{escape(command_of(study, other))}</code></li>" for other in shown.others
    )
    body = template("study.html").substitute(
        id=entry.id,
        origin=origin(entry),
        source="the paper says" if entry.paper else "is expected",
        caveats="Where we depart from the paper" if entry.paper else "What to keep in mind",
        title=escape(entry.title),
        about=escape(entry.about),
        status=chip(shown.verdict),
        scale=scale_badge(shown),
        protocol=escape(study.protocol),
        claims="".join(claim_html(entry, claim, finding) for claim, finding in shown.findings),
        exhibits=exhibits,
        deviations="".join(f"<li>{escape(deviation)}</li>" for deviation in deviations),
        command=escape(shown.command),
        settings="".join(
            f"<div><dt><code>{escape(name)}</code></dt><dd>{escape(shown_value(value))}</dd></div>"
            for name, value in recipe.settings.items()
        ),
        rows=f"{len(shown.rows):,}",
        seconds=duration(shown.seconds),
        hash=recipe.hash,
        seed=str(recipe.seed),
        versions=escape(shown.versions),
        others=f"<h3>Other runs in store</h3><ul>{others}</ul>" if others else "",
    )
    return document(f"dubio: {entry.id}, {entry.title}", body)


def origin(entry: Entry) -> str:
    """Where a study comes from, as a sentence."""
    if entry.paper is None:
        return f"{covers(entry)}."
    title = escape(PAPERS.get(entry.paper, ""))
    return f"{covers(entry)} of paper {entry.paper}, <cite>{title}</cite>."


def claim_html(entry: Entry, claim: Claim, finding: Finding) -> str:
    """A claim with the published value, ours, the rule and the verdict."""
    source = "Paper" if entry.paper else "From"
    return (
        f'<li class="claim {finding.verdict}">{chip(finding.verdict)}<div>'
        f"<p><b>{escape(claim.text)}</b></p><dl>"
        f"<div><dt>{source}</dt><dd>{escape(claim.published)}</dd></div>"
        f"<div><dt>Ours</dt><dd>{escape(finding.ours)}</dd></div>"
        f"<div><dt>Rule</dt><dd>{escape(claim.rule)}</dd></div></dl></div></li>"
    )


def table_html(table: Table) -> str:
    """A table that scrolls by itself where it is too wide."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{cell(row[0])}</th>'
        f"{''.join(f'<td>{cell(text)}</td>' for text in row[1:])}</tr>"
        for row in table.rows
    )
    return (
        f'<section class="exhibit"><h3>{escape(table.title)}</h3>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"{note(table.note)}</section>"
    )


def cell(text: str) -> str:
    """A cell's text, bold where it is marked so."""
    return re.sub(r"^\*\*(.*)\*\*$", r"<b>\1</b>", escape(text))


def plot_html(plot: Plot, owner: str) -> str:
    """A figure, drawn for both widths of screen; its owner's name tells it apart on the page."""
    name = f"{owner}-{plot.name}"
    wide = to_svg(plot.draw(plot.wide), f"{name} wide", plot.description)
    narrow = to_svg(plot.draw(plot.narrow), f"{name} narrow", plot.description)
    return (
        f'<section class="exhibit"><h3>{escape(plot.title)}</h3>'
        f"<figure>{wide}{narrow}</figure>{note(plot.note)}</section>"
    )


def chip(status: Status) -> str:
    """A status as a sign and a word."""
    return (
        f'<span class="chip {css_class(status)}"><i aria-hidden="true">{SIGNS[status]}</i>'
        f"{status}</span>"
    )


def scale_badge(shown: Shown) -> str:
    """The scale, with what it means."""
    meaning = {
        "smoke": "a test of the machinery, no result",
        "small": "reduced to minutes on two cores",
        "paper": "the paper's full protocol",
    }
    assert set(meaning) == set(SCALES)
    scale = shown.recipe.scale
    return f'<span class="scale" title="{meaning[scale]}">scale: {scale}</span>'


def covers(entry: Entry) -> str:
    """What a study stands for, as the start of a sentence."""
    text = ", ".join(entry.covers)
    return escape(text[:1].upper() + text[1:])


def note(text: str) -> str:
    """A note, if there is one."""
    return f'<p class="note">{escape(text)}</p>' if text else ""


def shown_value(value: object) -> str:
    """A setting's value."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def duration(seconds: float) -> str:
    """A length of time in words."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def document(title: str, body: str) -> str:
    """A page that needs nothing else."""
    css = stylesheet() + files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    return template("document.html").substitute(title=escape(title), css=css, body=body)


def page_name(entry: Entry) -> str:
    """The file of a study's page."""
    return f"{identifier(entry)}.html"


def identifier(entry: Entry) -> str:
    """A study's id as a name in HTML and of a file."""
    return entry.id.replace("/", "-")


def css_class(status: Status) -> str:
    """A status as a class."""
    return status.replace(" ", "-")


def template(name: str) -> Template:
    """A file of this package as a template."""
    return Template(files(__package__).joinpath(name).read_text(encoding="utf-8"))
