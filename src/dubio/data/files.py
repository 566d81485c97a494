"""Published files: their location, size and checksum."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dubio.data.archives import open_archive
from dubio.data.errors import DataError, unreadable


@final
@dataclass(frozen=True)
class File:
    """A file of a data set.

    Attributes:
        path: Below the data directory and below the cache, with slashes.
        size: In bytes, or None if it was not published.
        digest: ``sha256:…`` or ``md5:…`` of the bytes, or None if it was not published.
        contents: For an archive without a published digest: members, and the sha256 of each.
        url: Where it can be downloaded, or None.
    """

    path: str
    size: int | None = None
    digest: str | None = None
    contents: tuple[tuple[str, str], ...] = ()
    url: str | None = None

    @property
    def checked(self) -> bool:
        """Whether there is a checksum to detect damage."""
        return self.digest is not None or bool(self.contents)

    @property
    def downloadable(self) -> bool:
        """Whether it can be downloaded; files without a checksum are not."""
        return self.url is not None and self.checked


_verified: set[tuple[File, Path, int, int]] = set()


def verify(file: File, path: Path) -> None:
    """Raise a DataError unless the path holds what was published.

    The size comes first: it finds partial files without reading them. A file that has not changed
    since it was verified in this process is not read again.
    """
    try:
        _verify(file, path)
    except OSError as error:
        raise unreadable(error) from error


def _verify(file: File, path: Path) -> None:
    stat = path.stat()
    state = (file, path, stat.st_size, stat.st_mtime_ns)
    if state in _verified:
        return
    if file.size is not None and stat.st_size != file.size:
        what = "incomplete" if stat.st_size < file.size else "not the published one"
        raise _damaged(file, path, what, f"{file.size} bytes", f"{stat.st_size}")
    if file.digest is not None:
        got = digest(path, file.digest.partition(":")[0])
        if got != file.digest:
            raise _damaged(file, path, "damaged", file.digest, got)
    verify_contents(file, path)
    _verified.add(state)


def verify_contents(file: File, path: Path) -> None:
    """Compare the members of an archive with their checksums."""
    if not file.contents:
        return
    with open_archive(path) as archive:
        for member, expected in file.contents:
            got = hashlib.sha256(archive.read(member)).hexdigest()
            if got != expected:
                raise _damaged(file, path, "damaged", f"{member} with sha256:{expected}", got)


def digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file, with the name of the algorithm in front."""
    with path.open("rb") as stream:
        return f"{algorithm}:{hashlib.file_digest(stream, algorithm).hexdigest()}"


def _damaged(file: File, path: Path, what: str, expected: str, got: str) -> DataError:
    again = f"fetched again from {file.url}" if file.downloadable else "looked for elsewhere"
    return DataError(
        f"{path}: the file is {what}: expected {expected}, got {got}; "
        f"delete it, and it will be {again}, or put a good copy in its place"
    )
