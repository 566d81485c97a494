"""Draw the badges of the README from pyproject.toml, without another host.

``python tools/site/badges.py`` writes docs/images/badges; a test checks that they are current.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "images" / "badges"
WIDTH = 6.6  # of a letter, in pixels


def facts() -> dict[str, str]:
    """Return the text of each badge."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    torch = next(name for name in project["dependencies"] if name.startswith("torch"))
    floor = settings["tool"]["coverage"]["report"]["fail_under"]
    return {
        "python": between(project["requires-python"]),
        "torch": between(torch),
        "coverage": f"≥ {floor} %",
        "license": project["license"],
    }


def between(requirement: str) -> str:
    """Write `>=3.11,<3.14` as "3.11 to 3.13"."""
    found = re.search(r">=(\d+)\.(\d+),<(\d+)\.(\d+)", requirement)
    if found is None:
        raise ValueError(f"expected a range such as >=3.11,<3.14, got {requirement!r}")
    return f"{found[1]}.{found[2]} to {found[3]}.{int(found[4]) - 1}"


def badge(name: str, value: str) -> str:
    """Draw a badge in SVG."""
    left, right = (round(len(text) * WIDTH + 12) for text in (name, value))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img">'
        f"<title>{name}: {value}</title>"
        f'<rect width="{left + right}" height="20" rx="3" fill="#3a4048"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3}z" '
        'fill="#0072b2"/>'
        '<g fill="#fff" font-family="system-ui,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2}" y="14">{name}</text>'
        f'<text x="{left + right / 2}" y="14">{value}</text></g></svg>\n'
    )


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, value in facts().items():
        (FOLDER / f"{name}.svg").write_text(badge(name, value), encoding="utf-8")
