"""Exhibits as HTML, and pages that need no other file."""

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template

from dubio.report.exhibits import Plot, Table
from dubio.report.ink import stylesheet, to_svg


def document(title: str, body: str, css: str = "") -> str:
    """Return a page that needs nothing else; ``css`` comes after the rules that all pages share."""
    return _template("document.html").substitute(
        title=escape(title), css=stylesheet() + _text("exhibits.css") + css, body=body
    )


def exhibit_html(exhibit: Table | Plot, owner: str) -> str:
    """Return a table or a figure; its owner's name tells a figure apart on the page."""
    return table_html(exhibit) if isinstance(exhibit, Table) else plot_html(exhibit, owner)


def table_html(table: Table) -> str:
    """Return a table that scrolls by itself where the screen is too narrow for it."""
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


def plot_html(plot: Plot, owner: str) -> str:
    """Return a figure, drawn for both widths of screen."""
    name = f"{owner}-{plot.name}"
    wide = to_svg(plot.draw(plot.wide), f"{name} wide", plot.description)
    narrow = to_svg(plot.draw(plot.narrow), f"{name} narrow", plot.description)
    return (
        f'<section class="exhibit"><h3>{escape(plot.title)}</h3>'
        f"<figure>{wide}{narrow}</figure>{note(plot.note)}</section>"
    )


def settings_html(settings: Mapping[str, str]) -> str:
    """Return names and values, side by side."""
    return "".join(
        f"<div><dt><code>{escape(name)}</code></dt><dd>{escape(value)}</dd></div>"
        for name, value in settings.items()
    )


def cell(text: str) -> str:
    """Return a cell's text, bold where it is marked so; an error stays with its sign."""
    return re.sub(r"^\*\*(.*)\*\*$", r"<b>\1</b>", escape(text)).replace("± ", "±\u00a0")


def note(text: str) -> str:
    """Return a note, if there is one."""
    return f'<p class="note">{escape(text)}</p>' if text else ""


def _template(name: str) -> Template:
    return Template(_text(name))


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
