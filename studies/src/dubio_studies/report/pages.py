"""From results to HTML."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from dubio.report.html import document, exhibit_html, settings_html
from dubio_studies.catalogue import FAMILIES, Entry
from dubio_studies.framework.claims import VERDICTS, Ruling, Verdict
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import SCALES
from dubio_studies.report.results import (
    Code,
    Progress,
    Result,
    Shown,
    Status,
    command_of,
    is_own,
)

SIGNS: dict[Status, str] = {
    "holds": "✓",
    "goes further": "▲",
    "refuted": "✗",
    "behind": "▼",
    "undecided": "?",
    "started": "◔",
    "not run": "○",
    "nothing to compute": "·",
}
MEANINGS: dict[Verdict, str] = {
    "holds": "our rows meet the rule",
    "goes further": "our rows exceed what was published",
    "refuted": "converged runs contradict it; the cause is shown",
    "behind": "our number falls short; the suspected cause is named",
    "undecided": "the run is too small to tell",
}


CODES: dict[Code, str] = {
    "today's": "Made by the study as it is now.",
    "earlier": "<b>Made by an earlier version</b> of the study.",
    "unknown": "Made before rows named the code that makes them.",
}


def overview(results: Sequence[Result]) -> str:
    """The first page: how many claims have each verdict, and every table and figure."""
    paper, own = Counter[Verdict](), Counter[Verdict]()
    for result in results:
        for ruling in result.shown.rulings if result.shown else ():
            (own if is_own(result.entry, ruling) else paper)[ruling.verdict] += 1
    summary = "".join(
        f"<li><b>{paper[verdict]}</b>{chip(verdict)}"
        f'<span class="note">{MEANINGS[verdict]}</span></li>'
        for verdict in VERDICTS
    )
    families = "".join(
        f'<section aria-labelledby="family-{name}">'
        f'<h2 id="family-{name}">{escape(family.title)}</h2>'
        f'<p class="note"><code>{name}</code> {escape(family.citation)}</p>'
        f'<ul class="entries">'
        f"{''.join(overview_entry(r) for r in results if r.entry.family == name)}"
        f"</ul></section>"
        for name, family in FAMILIES.items()
    )
    body = template("overview.html").substitute(
        summary=summary,
        claims=str(sum(paper.values())),
        own=own_claims(own),
        studies=studies_sentence(results),
        families=families,
        version=version("dubio-studies"),
    )
    return page("dubio: what reproduces", body)


def own_claims(counts: Counter[Verdict]) -> str:
    """Our own claims, counted apart."""
    found = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    if not found:
        return ""
    return f"Our own claims, with dotted borders below, are counted separately: {found}."


def studies_sentence(results: Sequence[Result]) -> str:
    """How many studies there are, and how many were run."""
    run = sum(result.shown is not None for result in results)
    pictures = sum(result.status == "nothing to compute" for result in results)
    waiting = len(results) - run - pictures
    return (
        f"Studies: {run} run, {waiting} not run or not finished. {pictures} figures have nothing "
        f"to compute."
    )


def overview_entry(result: Result) -> str:
    """One line of the overview."""
    entry, shown = result.entry, result.shown
    name = f'<code class="id">{entry.id}</code> <b>{escape(entry.card.title)}</b>'
    detail = "".join(started_html(progress) for progress in result.started)
    if shown is not None:
        name = f'<a href="{page_name(entry)}">{name}</a>'
        chips = "".join(
            f'<span title="{escape(r.claim.text)}">{chip(r.verdict, ours=is_own(entry, r))}</span>'
            for r in shown.rulings
        )
        detail = f'<div class="claims-row">{scale_badge(shown)}{chips}</div>{detail}'
    elif result.unusable:
        detail += "".join(f'<p class="note">{escape(reason)}</p>' for reason in result.unusable)
    elif result.status == "not run":
        detail = f'<p class="note"><code>dubio run {entry.id}</code></p>'
    return (
        f'<li class="entry {css_class(result.status)}" id="{identifier(entry)}">'
        f"{chip(result.status)}<div>{name}"
        f'<p class="note">{covers(entry)}. {escape(entry.card.about)}</p>{detail}</div></li>'
    )


def started_html(progress: Progress) -> str:
    """How far a run is that is not finished."""
    recipe = progress.recipe
    seed = f", seed {recipe.seed}" if recipe.seed else ""
    where = escape(f"scale {recipe.scale}{seed}")
    return (
        f'<p class="note">Not finished at {where}: {progress} pieces are done. The same '
        "command resumes it.</p>"
    )


def study_page(result: Result, shown: Shown) -> str:
    """The page of a study that was run."""
    entry, study, recipe = result.entry, shown.study, shown.recipe
    rows = Rows([*shown.rows, *study.computation.backdrop()])
    deviations = [*study.computation.deviations, *shown.departures]
    others = "".join(
        f"<li><code>{escape(command_of(study, other))}</code></li>" for other in shown.others
    )
    body = template("study.html").substitute(
        id=entry.id,
        origin=origin(entry),
        source="the paper says" if entry.paper else "is expected",
        caveats="Where we depart from the paper" if entry.paper else "Limitations",
        title=escape(entry.card.title),
        about=escape(entry.card.about),
        status=chip(shown.verdict),
        scale=scale_badge(shown),
        started="".join(started_html(progress) for progress in result.started),
        protocol=escape(study.computation.protocol),
        claims="".join(claim_html(entry, ruling) for ruling in shown.rulings),
        exhibits="".join(
            exhibit_html(exhibit, identifier(entry)) for exhibit in study.page.exhibits(rows)
        ),
        deviations="".join(f"<li>{escape(deviation)}</li>" for deviation in deviations),
        command=escape(shown.command),
        settings=settings_html({n: shown_value(v) for n, v in recipe.settings.items()}),
        rows=f"{len(shown.rows):,}",
        seconds=duration(shown.seconds),
        hash=recipe.hash,
        seed=escape(str(recipe.seed)),
        versions=escape(shown.versions),
        code=CODES[shown.code],
        others=f"<h3>Other runs in store</h3><ul>{others}</ul>" if others else "",
    )
    return page(f"dubio: {entry.id}, {entry.card.title}", body)


def origin(entry: Entry) -> str:
    """Where a study comes from, as a sentence."""
    if entry.paper is None:
        return f"{covers(entry)}."
    title = escape(FAMILIES[entry.family].title)
    return f"{covers(entry)} of {escape(entry.paper)}, <cite>{title}</cite>."


def claim_html(entry: Entry, ruling: Ruling) -> str:
    """A claim with the published value, ours, the rule, the verdict and its cause."""
    claim = ruling.claim
    source = "Paper" if entry.paper and not claim.ours else "From"
    fields = {source: claim.published, "Ours": ruling.finding.ours, "Rule": claim.rule}
    if ruling.cause:
        fields["Cause"] = ruling.cause
    facts = "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in fields.items())
    own = ' <span class="note">Our own claim.</span>' if claim.ours and entry.paper else ""
    return (
        f'<li class="claim {css_class(ruling.verdict)}">{chip(ruling.verdict, ours=claim.ours)}'
        f"<div><p><b>{escape(claim.text)}</b>{own}</p><dl>{facts}</dl></div></li>"
    )


def chip(status: Status, *, ours: bool = False) -> str:
    """A status as a sign and a word; paler on a claim of our own."""
    kind = f"{css_class(status)} ours" if ours else css_class(status)
    return f'<span class="chip {kind}"><i aria-hidden="true">{SIGNS[status]}</i>{status}</span>'


def scale_badge(shown: Shown) -> str:
    """The scale, with what it means."""
    meaning = {
        "smoke": "a test of the code, not a result",
        "small": "reduced to minutes on two cores",
        "paper": "the paper's protocol, except for the listed deviations",
    }
    assert set(meaning) == set(SCALES)
    scale = shown.recipe.scale
    return f'<span class="scale" title="{meaning[scale]}">scale: {scale}</span>'


def covers(entry: Entry) -> str:
    """What a study stands for, as the start of a sentence."""
    text = ", ".join(entry.card.covers)
    return escape(text[:1].upper() + text[1:])


def shown_value(value: object) -> str:
    """A setting's value."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def duration(seconds: float) -> str:
    """A length of time in words."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def page_name(entry: Entry) -> str:
    """The file of a study's page."""
    return f"{identifier(entry)}.html"


def identifier(entry: Entry) -> str:
    """A study's id as a name in HTML and of a file."""
    return entry.id.replace("/", "-")


def css_class(status: Status) -> str:
    """A status as a class."""
    return status.replace(" ", "-")


def page(title: str, body: str) -> str:
    """A page of the report."""
    css = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    return document(title, body, css)


def template(name: str) -> Template:
    """A file of this package as a template."""
    return Template(files(__package__).joinpath(name).read_text(encoding="utf-8"))
