"""Archives are read in memory, member by member. Nothing is ever extracted to the disk.

A member that could be written outside of its folder makes the whole archive suspect: it is
refused when the archive is opened.
"""

import gzip
import stat
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import final

from dubio.data.errors import DataError, unreadable

CONTENT = "content"
"""The name of the only member of a gzip."""

_DAMAGE = (OSError, EOFError, RuntimeError, zlib.error, tarfile.TarError, zipfile.BadZipFile)
_GZIP = b"\x1f\x8b"
_PART = 1 << 20
_HARMLESS = 1 << 28  # bytes that any archive may hold
_DENSEST = 100  # times its own size that a larger one may


class Archive(ABC):
    """Named members, of which each is a string of bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> bytes:
        """Return the bytes of a member."""
        try:
            return self._read(name)
        except KeyError as error:
            raise DataError(
                f"{self.path}: expected {name} in it, got none; get it again"
            ) from error
        except _DAMAGE as error:
            raise _damaged(self.path, f"{name} in it", error) from error

    @abstractmethod
    def _read(self, name: str) -> bytes:
        """Return the bytes of a member; a KeyError if there is no such member."""


@final
class _Zip(Archive):
    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        super().__init__(path)
        self._file = file
        for member in file.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            _refuse_unsafe(path, member.filename, kind not in (0, stat.S_IFREG, stat.S_IFDIR))

    def _read(self, name: str) -> bytes:
        _refuse_bomb(self.path, name, self._file.getinfo(name).file_size)
        return self._file.read(name)


@final
class _Tar(Archive):
    def __init__(self, path: Path, file: tarfile.TarFile) -> None:
        super().__init__(path)
        self._file = file
        for member in file.getmembers():
            _refuse_unsafe(path, member.name, not (member.isreg() or member.isdir()))

    def _read(self, name: str) -> bytes:
        member = self._file.getmember(name)
        stream = self._file.extractfile(member)
        if stream is None:
            raise KeyError(name)
        _refuse_bomb(self.path, name, member.size)
        return stream.read()


@final
class _Gzip(Archive):
    def _read(self, name: str) -> bytes:
        parts, size = [], 0
        if self.path.stat().st_size == 0:
            raise EOFError("no bytes")
        with gzip.open(self.path) as stream:
            while part := stream.read(_PART):
                size += len(part)
                _refuse_bomb(self.path, name, size)
                parts.append(part)
        return b"".join(parts)


@final
class _Folder(Archive):
    def _read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError as error:
            raise KeyError(name) from error


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a folder, a zip, a tar (compressed or not) or a gzip, whatever the path leads to."""
    with ExitStack() as stack:
        try:
            archive = _open(path, stack)
        except _DAMAGE as error:
            raise _damaged(path, "an archive", error) from error
        yield archive


def _open(path: Path, stack: ExitStack) -> Archive:
    if path.is_dir():
        return _Folder(path)
    if zipfile.is_zipfile(path):
        return _Zip(path, stack.enter_context(zipfile.ZipFile(path)))
    with path.open("rb") as file:
        compressed = file.read(len(_GZIP)) == _GZIP
    if not compressed:
        return _Tar(path, stack.enter_context(tarfile.open(path)))
    try:  # as a compressed tar only: a gzip's zeros may pass for the header of a plain one
        return _Tar(path, stack.enter_context(tarfile.open(path, "r:gz")))
    except tarfile.ReadError:
        return _Gzip(path)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed if it is a gzip."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(error) from error
    return _Gzip(path).read(CONTENT) if content.startswith(_GZIP) else content


def _refuse_unsafe(path: Path, name: str, special: bool) -> None:
    inner = PurePosixPath(name.replace("\\", "/"))
    if special or inner.is_absolute() or ".." in inner.parts or name[1:2] == ":":
        raise DataError(
            f"{path}: expected plain files inside of the archive, got {name!r}, which is a link "
            "or leads outside; nothing was written; delete the archive"
        )


def _refuse_bomb(path: Path, name: str, size: int) -> None:
    """Refuse a small archive that claims to hold a huge member."""
    most = max(_HARMLESS, _DENSEST * path.stat().st_size)
    if size > most:
        raise DataError(
            f"{path}: expected at most {most} bytes of {name} in an archive of this size, got "
            f"{size} or more; nothing was read; delete the archive"
        )


def _damaged(path: Path, expected: str, error: Exception) -> DataError:
    return DataError(
        f"{path}: the file is damaged or incomplete: expected {expected}, "
        f"got {type(error).__name__} ({error}); delete it and get it again"
    )
