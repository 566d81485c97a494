"""Folders for data that are not there, are something else, or cannot be read: a message."""

from pathlib import Path

import pytest

from dubio import data
from dubio.data.errors import DataError


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("missing", "where there is nothing that can be reached; create it"),
        ("missing/deep/er", "where there is nothing that can be reached; create it"),
        ("file", "where there is a file; create it"),
        ("file/below", "where there is nothing that can be reached; create it"),
        ("link", "where there is nothing that can be reached; create it"),
        ("x" * 5000, "where there is nothing that can be reached; create it"),
    ],
)
def test_dubio_data(place: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("nowhere")
    monkeypatch.setenv("DUBIO_DATA", str(tmp_path / place))
    for work in (data.available, lambda: data.mnist("train"), lambda: data.uci("yacht"), data.qspr):
        with pytest.raises(DataError, match=f"^DUBIO_DATA: expected a folder, got .*{what}"):
            work()  # type: ignore[operator]


@pytest.mark.parametrize("variable", ["DUBIO_DATA", "DUBIO_CACHE"])
def test_the_home_of_nobody(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUBIO_DATA", raising=False)
    monkeypatch.setenv(variable, "~who-is-this/data")
    with pytest.raises(DataError, match=f"{variable}: expected a folder, got ~who-is-this/data"):
        data.available()


def test_a_cache_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cached there, and nothing can be."""
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.delenv("DUBIO_DATA", raising=False)
    monkeypatch.setenv("DUBIO_CACHE", str(tmp_path / "file"))
    assert all(holding.status == "missing" for holding in data.available())
    with pytest.raises(DataError, match=r"the download from .* failed"):
        data.mnist("train")


def test_a_folder_in_the_place_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uci-regression/yacht/data.txt").mkdir(parents=True)
    monkeypatch.setenv("DUBIO_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"data\.txt"):
        data.uci("yacht")
