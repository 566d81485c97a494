"""The Python blocks of the README, CONTRIBUTING and the docs run, each file in one namespace.

It is empty, but for a page that sends its reader to the names in the examples.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dubio

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "index.md"
HEADING = "Names in the examples"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXTRAS = dict.fromkeys(("pilco.md", "reinforcement.md", "worlds.md"), "gymnasium") | {
    "at-scale.md": "pyarrow",
    "bayesian-optimisation.md": "botorch",
    "export.md": "onnxruntime",
    "frameworks.md": "lightning",
    "lora.md": "peft",
}
BLOCK = re.compile(r"^```python(?: title=\S+)?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def python_blocks(page: Path) -> Iterator[str]:
    """Every block, pushed down to its line in the page so that tracebacks point there."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        yield "\n" * text.count("\n", 0, block.start(1)) + block.group(1)


def reader_names() -> dict[str, Any]:
    """What a reader has who was sent to the block under that heading."""
    names: dict[str, Any] = {}
    _, _, after = INDEX.read_text(encoding="utf-8").partition(f"## {HEADING}")
    block = BLOCK.search(after)
    assert block is not None
    exec(block.group(1), names)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    if page.name in EXTRAS:
        pytest.importorskip(EXTRAS[page.name])
    sent = f"#{HEADING.lower().replace(' ', '-')})" in page.read_text(encoding="utf-8")
    names = reader_names() if sent else {}
    for source in python_blocks(page):
        exec(compile(source, str(page), "exec"), names)


def test_the_readme_has_blocks() -> None:
    assert len(list(python_blocks(ROOT / "README.md"))) >= 5


def test_the_page_on_predicting_shows_the_table_of_sites_as_it_prints() -> None:
    names = reader_names()
    page = (ROOT / "docs" / "predict.md").read_text(encoding="utf-8")
    assert str(dubio.sites(names["net"], names["x"])) in page


def test_the_page_on_conversion_shows_the_plan_as_it_prints() -> None:
    page = (ROOT / "docs" / "convert.md").read_text(encoding="utf-8")
    rule = dubio.rules.replace_dropout(dubio.masks.Concrete)
    assert str(dubio.plan(reader_names()["net"], rule)) in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", text):
        found = page.parent / target if target else page
        if found.suffix == ".md":
            assert anchor in anchors(found), f"{target}#{anchor}"
