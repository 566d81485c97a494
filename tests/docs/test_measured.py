"""The measured tables of a page are those of the stored rows."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tables_are_those_of_the_rows() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "site" / "measured.py"))
    page = script["PAGE"].read_text(encoding="utf-8")
    assert script["filled"](page) == page, "run python tools/site/measured.py"
