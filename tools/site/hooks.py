"""Hooks for mkdocs: pages from outside of docs/, and nested lists as GitHub reads them.

Pages of docs/ link to files of the repository (`../CHANGELOG.md`, `../examples/any_network.py`).
Each of these becomes a page below `repository/`, so that the site needs no other host.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from notebooks import rendered

ROOT = Path(__file__).parents[2]
HOME = "docs/start.md"
ASIDE = "repository/"
NOTEBOOKS = "notebooks/"
BUILT = {"studies-pages": ROOT / "build/report", "live": ROOT / "web/dist"}
STUDIES = {
    "studies-pages/index.html": "All stored runs: tables, figures and verdicts",
    "studies-pages/ledger.html": "The ledger: every number of the papers next to ours",
}
BOOST = {"guide-": 2.0, "questions": 2.0, "decisions/": 0.3, ASIDE: 0.3}  # ranks in the search
NAME = '<p class="name">{}</p>'
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(([^)#:\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add notebooks, pages built by other tools, and files that pages link to."""
    for name, content in rendered(ROOT / "notebooks"):
        files.append(File.generated(config, f"{NOTEBOOKS}{name}", content=content))
    for place, folder in BUILT.items():
        for path in sorted(folder.rglob("*")) if folder.exists() else ():
            if path.is_file():
                name = f"{place}/{path.relative_to(folder).as_posix()}"
                files.append(File.generated(config, name, abs_src_path=str(path)))
    _serve_first(files, "start.md", "index.md", "all-pages.html")
    known = {file.src_uri for file in files}
    waiting = [file for file in files if file.src_uri.endswith(".md")]
    while waiting:
        file = waiting.pop()
        for target in _linked(file.content_string, _origin(file.src_uri)):
            uri = _page_of(target)
            if uri is None or uri in known or not uri.startswith(ASIDE):
                continue
            page = File.generated(config, uri, content=_as_markdown(ROOT / target))
            known.add(uri)
            files.append(page)
            waiting.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at pages of the site, and indent lists as mkdocs expects."""
    here, origin = page.file.src_uri, _origin(page.file.src_uri)
    for start, boost in BOOST.items():
        if here.startswith(start):
            page.meta["search"] = {"boost": boost}
    if here.startswith(ASIDE) and not origin.endswith(".md"):
        page.meta["search"] = {"exclude": True}  # code: the reference is what readers look for
    if page.parent is None:  # a tab without further pages
        page.meta["hide"] = ["navigation"]
    if here == "studies.md":
        built = [f"- **[{text}]({uri})**" for uri, text in STUDIES.items() if uri in files.src_uris]
        title, _, rest = markdown.partition("\n")
        markdown = "\n".join([title, "", *built, rest])
    return _outside_fences(
        markdown, lambda text: _indented(_unbroken(_relinked(text, here, origin)))
    )


def on_post_build(config: Any) -> None:
    """Let the name on the pages of the studies lead back to the start page."""
    page = Path(config["site_dir"]) / "studies-pages/index.html"
    if page.exists():
        text = page.read_text(encoding="utf-8")
        back = '<a href="../index.html">dubio</a>'
        page.write_text(text.replace(NAME.format("dubio"), NAME.format(back)), encoding="utf-8")


def _serve_first(files: Files, home: str, list_of_pages: str, at: str) -> None:
    """Serve the start page as index.html, and index.md elsewhere."""
    for uri, to in ((list_of_pages, at), (home, "index.html")):
        file = files.get_file_from_path(uri)
        assert file is not None
        file.dest_uri = to
        file.url = to
        file.abs_dest_path = posixpath.join(posixpath.dirname(file.abs_dest_path), to)


def _origin(uri: str) -> str:
    """Return the repository path of a page of the site."""
    if uri.startswith(NOTEBOOKS):
        return f"{uri.removesuffix('.md')}.py"
    if not uri.startswith(ASIDE):
        return f"docs/{uri}"
    path = uri.removeprefix(ASIDE)
    return path if (ROOT / path).is_file() else path.removesuffix(".md")


def _page_of(path: str) -> str | None:
    """Return the page of the site for a path in the repository; None for folders."""
    if path == "README.md":
        path = HOME
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if not (ROOT / path).is_file():
        return None
    if path.startswith(NOTEBOOKS):
        return f"{path.removesuffix('.py')}.md"
    return ASIDE + path + ("" if path.endswith(".md") else ".md")


def _linked(markdown: str, origin: str) -> list[str]:
    """Return the repository paths that a page links to."""
    found = []
    for match in LINK.finditer(FENCE.sub("", markdown)):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[2]))
        if not path.startswith("../") and (ROOT / path).exists():
            found.append(path)
    return found


def _relinked(markdown: str, here: str, origin: str) -> str:
    """Rewrite links so that they work on the site."""

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[2]))
        if path.startswith("../") or not (ROOT / path).exists():
            return match[0]
        if (uri := _page_of(path)) is None:
            return match[1][1:-1]  # a folder: the text alone
        target = posixpath.relpath(uri, posixpath.dirname(here) or ".")
        return f"{match[1]}({target}{match[3] or ''})"

    return LINK.sub(link, markdown)


def _unbroken(markdown: str) -> str:
    """Keep a number and its error on one line."""
    return re.sub(r"(?<=\d) ± (?=\d)", "\u00a0±\u00a0", markdown)


def _indented(markdown: str) -> str:
    """Indent nested lists by four spaces; GitHub accepts two or three."""
    return re.sub(r"^ {2,3}(?=\S)", "    ", markdown, flags=re.MULTILINE)


def _outside_fences(markdown: str, change: Any) -> str:
    """Apply a change outside of code blocks that start at the margin."""
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def _as_markdown(path: Path) -> str:
    """Render a file of the repository as a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    name = path.relative_to(ROOT).as_posix()
    language = "python" if path.suffix == ".py" else "text"
    return f"# {path.name}\n\n`{name}`\n\n```{language}\n{text}```\n"
