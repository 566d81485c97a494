"""One version, wherever it stands; and a changelog whose last release is that version."""

import re
import tomllib
from pathlib import Path

import dubio
import dubio_studies

ROOT = Path(__file__).parents[2]
RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\](?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


def test_one_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    assert dubio_studies.__version__ == dubio.__version__
    assert f"version: {dubio.__version__}\n" in citation
    assert f"version = {{{dubio.__version__}}}" in page


def test_the_distributions_ask_for_each_other() -> None:
    found = re.match(r"(\d+)\.(\d+)\.", dubio.__version__)
    assert found is not None
    major, minor = int(found[1]), int(found[2])
    wanted = f">={major}.{minor},<{major}.{minor + 1}"
    library = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    studies = tomllib.loads((ROOT / "studies" / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"dubio-studies{wanted}" in library["project"]["optional-dependencies"]["studies"]
    assert any(name.endswith(wanted) for name in studies["project"]["dependencies"])


def test_the_changelog_ends_with_this_version() -> None:
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = RELEASE.findall(log)
    version, date = releases[0]
    assert version == dubio.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"date-released: {date}\n" in citation
