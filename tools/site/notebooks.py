"""Run notebooks and render them as pages, with output and figures."""

import re
from collections.abc import Iterator
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from traitlets.config import Config

QUIET = Config({"KernelManager": {"transport": "ipc"}})  # no sockets, no warning about them
HINT = re.compile(r"  # (?:fmt: skip|noqa.*)$", re.MULTILINE)  # not for readers
NOTE = "*This page was run when the site was built. Its source is `notebooks/{name}`.*"


def rendered(folder: Path) -> Iterator[tuple[str, str | bytes]]:
    """Yield name and content of every page, followed by its figures."""
    for path in sorted(folder.glob("*.py")):
        notebook = jupytext.read(path, fmt="py:percent")
        NotebookClient(notebook, timeout=600, coalesce_streams=True, config=QUIET).execute()
        for cell in notebook.cells:
            cell.source = HINT.sub("", cell.source)
        aside = {"unique_key": path.stem, "output_files_dir": path.stem}
        markdown, resources = MarkdownExporter().from_notebook_node(notebook, aside)
        yield f"{path.stem}.md", f"{markdown}\n\n{NOTE.format(name=path.name)}\n"
        yield from resources["outputs"].items()
