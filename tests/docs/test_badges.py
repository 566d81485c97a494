"""The badges of the README say what pyproject.toml says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_badges_are_true() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "site" / "badges.py"))
    for name, value in script["facts"]().items():
        stored = (script["FOLDER"] / f"{name}.svg").read_text(encoding="utf-8")
        assert stored == script["badge"](name, value), "run python tools/site/badges.py"
        assert f"docs/images/badges/{name}.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
