"""The Python blocks of the README and the docs run, each file in one namespace.

A file may use `torch`, a dropout classifier `net`, a batch `x` (32, 16) and its labels `y` (32,).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dubio

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def python_blocks(page: Path) -> Iterator[str]:
    """Every block, pushed down to its line in the page so that tracebacks point there."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        yield "\n" * text.count("\n", 0, block.start(1)) + block.group(1)


def reader_names() -> dict[str, Any]:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(64, 10),
    ).eval()  # fmt: skip
    return {"torch": torch, "net": net, "x": torch.randn(32, 16), "y": torch.randint(10, (32,))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page: Path) -> None:
    names = reader_names()
    for source in python_blocks(page):
        exec(compile(source, str(page), "exec"), names)


def test_the_readme_has_blocks() -> None:
    assert len(list(python_blocks(ROOT / "README.md"))) >= 5


def test_the_readme_shows_the_table_of_sites_as_it_prints() -> None:
    names = reader_names()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert str(dubio.sites(names["net"], names["x"])) in readme


def test_the_page_on_conversion_shows_the_plan_as_it_prints() -> None:
    page = (ROOT / "docs" / "convert.md").read_text(encoding="utf-8")
    rule = dubio.rules.replace_dropout(dubio.masks.Concrete)
    assert str(dubio.plan(reader_names()["net"], rule)) in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
