"""Data tests never touch the user's cache, and only those of the download have a network."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dubio.data import dataset
from dubio.data.files import File


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("DUBIO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path / "cache"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever downloads fails."""

    def refuse(file: File) -> Path:
        pytest.fail(f"{file.path} should be here, and not be downloaded")

    monkeypatch.setattr(dataset, "download", refuse)


@pytest.fixture
def held(no_network: None) -> Path:
    """The folder with real data."""
    folder = os.environ.get("DUBIO_DATA")
    if not folder:
        pytest.skip("DUBIO_DATA is not set: there are no data to read")
    return Path(folder)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for ``DUBIO_DATA``."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("DUBIO_DATA", str(folder))
    return folder


@pytest.fixture
def publish() -> Callable[..., File]:
    """Describes some content as a published file."""

    def publish(content: bytes, path: str = "made/up.bin", url: str | None = None) -> File:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        return File(path, len(content), digest, url=url)

    return publish
