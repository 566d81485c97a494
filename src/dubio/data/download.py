"""Downloads into the cache: whole and checked, or not at all."""

from pathlib import Path

from dubio.data.errors import DataError, extra, folder_from
from dubio.data.files import File, verify_contents
from dubio.report.progress import Progress

_CHUNK = 1 << 16
_PATIENCE = 30.0  # seconds without a byte
_LARGEST = 1 << 33  # bytes of a file whose size was not published


def cache_directory() -> Path:
    """``DUBIO_CACHE``, or the place for caches of the operating system."""
    return folder_from("DUBIO_CACHE") or Path(extra("pooch").os_cache("dubio"))


def _refuse_more(received: int, size: int | None) -> None:
    """Stop as soon as a file is larger than it can be."""
    if size is not None and received > size:
        raise DataError(f"expected {size} bytes, got more, at least {received}")


def download(file: File) -> Path:
    """Fetch a file from its source into the cache.

    pooch has it written to a temporary file beside its place, compares the checksum, and only then
    moves it there: readers and other processes never see a part of it.
    """
    place = cache_directory() / file.path

    def fetch(url: str, output: str, _: object) -> None:
        as_it_is = {"Accept-Encoding": "identity"}
        get = extra("requests").get
        with get(url, stream=True, timeout=_PATIENCE, headers=as_it_is) as response:
            response.raise_for_status()
            promised = int(response.headers.get("Content-Length", 0))
            size = file.size or promised
            _refuse_more(promised, file.size)
            received = 0
            with Path(output).open("wb") as stream, Progress(f"download {place.name}", size) as bar:
                for chunk in response.iter_content(_CHUNK):
                    received += len(chunk)
                    _refuse_more(received, file.size or _LARGEST)
                    stream.write(chunk)
                    bar.advance(len(chunk))
        verify_contents(file, Path(output))

    retrieve = extra("pooch").retrieve
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        retrieve(file.url, file.digest, place.name, place.parent, downloader=fetch)
    except (OSError, ValueError, DataError) as error:
        raise DataError(
            f"{file.path}: the download from {file.url} failed: {error}; try again, or get the "
            f"file by hand and put it at {place} or at {file.path} below DUBIO_DATA"
        ) from error
    return place
