"""The practice study is in the catalogue while these tests run."""

from pathlib import Path

import pytest

import practice
from dubio_studies import catalogue


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [*catalogue.ENTRIES, practice.ENTRY]
    monkeypatch.setattr(catalogue, "ENTRIES", entries)


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Networks that studies share are not those of the user."""
    monkeypatch.setenv("DUBIO_CACHE", str(tmp_path / "cache"))
