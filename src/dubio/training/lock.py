"""A lock: one run at a time for a file, released when its process dies."""

import os
from contextlib import suppress
from pathlib import Path
from typing import final

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_held: set[Path] = set()  # by this process, to whose threads its locks mean nothing


@final
class Lock:
    """The right to write a file, as a lock on another one beside it.

    The lock of a process that dies is free at once, even if its workers live on. Where there are no
    locks, or nothing can be written, there is nothing to take.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.lock")
        self._key = self._path.absolute()
        self._file: int | None = None

    def take(self) -> bool:
        """Take it; False if another run has it."""
        if self._key in _held:
            return False
        while fcntl is not None:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError:  # a folder that cannot be written, which saving will tell
                break
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                os.close(file)
                return False
            except OSError:  # a file system without locks
                os.close(file)
                break
            if self._is_still(file):
                self._file = file
                break
            os.close(file)  # its owner has just gone, and taken the name away
        _held.add(self._key)
        return True

    def release(self) -> None:
        """Give it back."""
        _held.discard(self._key)
        if self._file is not None:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._file)
            self._file = None

    def _is_still(self, file: int) -> bool:
        """Return whether an open file has its name still."""
        try:
            return os.path.samestat(os.fstat(file), os.stat(self._path))
        except OSError:
            return False
