"""The modules of both distributions, parsed."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "dubio"
STUDIES = ROOT / "studies" / "src" / "dubio_studies"


@cache
def parsed(folder: Path) -> dict[str, ast.Module]:
    """Every module below a folder by its path there."""
    return {
        path.relative_to(folder).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }
