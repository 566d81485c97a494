"""The practice study is in the catalogue while these tests run."""

import pytest

import practice
from dubio.studies import catalogue


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [*catalogue.ENTRIES, practice.ENTRY]
    monkeypatch.setattr(catalogue, "ENTRIES", entries)
