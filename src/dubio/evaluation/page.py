"""An evaluation on disk: ``index.html``, ``metrics.json``, and the drawings as PNG."""

import json
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from dubio.data.files import digest
from dubio.evaluation.errors import EvaluationError
from dubio.evaluation.evaluate import Evaluation
from dubio.evaluation.exhibits import plots_of, table_of, title_of
from dubio.report.html import document, plot_html, settings_html, table_html
from dubio.report.ink import to_png
from dubio.report.tables import table


def prepare(output: Path) -> None:
    """Make the folder, before anything is computed in vain."""
    with _explained(output):
        output.mkdir(parents=True, exist_ok=True)


def write_pages(
    evaluation: Evaluation, settings: Mapping[str, str], command: str, output: Path
) -> Path:
    """Write everything; the page needs no other file.

    Args:
        evaluation: What was found.
        settings: What it was found about, by name: at least ``model``, ``state`` and ``data``.
        command: What makes it again.
        output: The folder.

    Returns:
        The page.
    """
    settings = {**settings, "state_digest": digest(Path(settings["state"]))}
    record = {
        "command": command,
        "settings": settings,
        "versions": versions(),
        **evaluation.as_dict(),
    }
    page = output / "index.html"
    with _explained(output):
        text = json.dumps(record, indent=2, ensure_ascii=False)
        (output / "metrics.json").write_text(f"{text}\n", encoding="utf-8")
        for plot in plots_of(evaluation):
            (output / f"{plot.name}.png").write_bytes(to_png(plot.draw(plot.wide)))
        page.write_text(page_of(evaluation, settings, command), encoding="utf-8")
    return page


def text_of(evaluation: Evaluation) -> str:
    """Return the table for a terminal, with a star for the best values."""
    shown = table_of(evaluation)
    rows = [[re.sub(r"^\*\*(.*)\*\*$", r"\1 *", cell) for cell in row] for row in shown.rows]
    return f"{table(shown.columns, rows)}\n\n{shown.note.replace('bold', 'starred')}"


def page_of(evaluation: Evaluation, settings: Mapping[str, str], command: str) -> str:
    """Return the page as HTML."""
    foreign = f" and {evaluation.foreign_rows:,} foreign ones" if evaluation.foreign_rows else ""
    body = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return document(
        f"dubio: {settings['model']} on {settings['data']}",
        body.substitute(
            model=escape(settings["model"]),
            data=escape(settings["data"]),
            rows=f"{evaluation.rows:,} rows{foreign}",
            draws=str(evaluation.draws),
            calibration=calibration_html(evaluation),
            table=table_html(table_of(evaluation)),
            plots="".join(plot_html(plot, "evaluation") for plot in plots_of(evaluation)),
            command=escape(command),
            settings=settings_html(settings),
            versions=", ".join(f"{name} {number}" for name, number in versions().items()),
        ),
    )


def calibration_html(evaluation: Evaluation) -> str:
    """Describe the fitted calibration in a sentence."""
    found = [
        f"{name} {value:.3g} ({title_of(column, evaluation.draws)})"
        for column, values in evaluation.calibration.items()
        for name, value in values.items()
    ]
    return f'<p class="note">Fitted on validation data: {", ".join(found)}.</p>' if found else ""


def versions() -> dict[str, Any]:
    """With what it was computed."""
    return {
        "dubio": version("dubio"),
        "torch": version("torch"),
        "python": platform.python_version(),
    }


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EvaluationError(
            f"output: expected a folder that can be written, got {folder} ({error.strerror}); "
            "choose another by --output"
        ) from error
