"""Downloads into the cache: whole and checked, or not at all."""

import os
from pathlib import Path
from typing import Any

from dubio.data.errors import DataError, extra
from dubio.data.files import File, verify_contents
from dubio.progress import Progress

_CHUNK = 1 << 16


def cache_directory() -> Path:
    """``DUBIO_CACHE``, or the place for caches of the operating system."""
    chosen = os.environ.get("DUBIO_CACHE")
    return Path(chosen).expanduser() if chosen else Path(extra("pooch").os_cache("dubio"))


def download(file: File) -> Path:
    """Fetch a file from its source into the cache.

    pooch writes to a temporary file beside the place, compares the checksum, and only then moves
    the file there: readers and other processes never see a part of it.
    """
    pooch = extra("pooch")
    place = cache_directory() / file.path

    def fetch(url: str, output: str, pup: Any) -> None:
        with Progress(f"download {place.name}", file.size) as progress:
            bar = _Bar(progress)
            pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK)(url, output, pup)
        verify_contents(file, Path(output))

    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(file.url, file.digest, place.name, place.parent, downloader=fetch)
    except (OSError, ValueError, DataError) as error:
        raise DataError(
            f"{file.path}: the download from {file.url} failed: {error}; try again, or get the "
            f"file by hand and put it at {place} or at that path below DUBIO_DATA"
        ) from error
    return place


class _Bar:
    """What pooch asks of a progress bar, by means of ours."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.total = 0

    def update(self, size: int) -> None:
        self._progress.advance(size)

    def reset(self) -> None:
        """Pooch counts anew at the end, to fill the bar."""

    def close(self) -> None:
        """The context of the progress closes it."""
