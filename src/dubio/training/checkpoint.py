"""A checkpoint file that is complete or absent, whenever the process dies."""

import glob
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Self, final

import torch

from dubio.plain_files import load, replace
from dubio.training.errors import CheckpointError as CheckpointError
from dubio.training.errors import DamagedCheckpointError as DamagedCheckpointError
from dubio.training.lock import Lock
from dubio.training.values import is_same

_FORMAT = 2
State = dict[str, Any]


@final
class Checkpoint:
    """One file with the state of a run, replaced as a whole whenever it is saved.

    The state goes to a temporary file in the same folder, is forced to the disk, and then takes
    the name of the checkpoint. A process that is killed at any moment leaves the checkpoint before
    or the one after, and at worst the temporary file and that of the lock, which the next run takes
    away. It is a context, in which no other run may save to the same file.

    Args:
        path: The file, or None to save nothing.
        interval: Least number of seconds between saves that are not urgent.
        identity: What must be the same in a run that goes on from the file.
    """

    def __init__(self, path: Path | None, interval: float, identity: State) -> None:
        self._path = path if path is None else _destination(path)
        self._interval = interval
        self._identity = {"format": _FORMAT, **identity}
        self._saved: float | None = None
        self._types: set[type] = set()  # of what was saved, and could be loaded
        self._is_checked = False
        self._known: tuple[int, int, int] | None = None  # the file as this run has last seen it
        self._lock = None if self._path is None else Lock(self._path)

    def __enter__(self) -> Self:
        if self._path is None or self._lock is None:
            return self
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._lock.take():
            raise CheckpointError(
                f"checkpoint: expected a file that no other run saves to, got {self._path}, to "
                f"which one does at this moment; wait for its end, or pass another path"
            )
        self._known = _state_of(self._path)
        for old in self._path.parent.glob(f"{glob.escape(self._path.name)}.*.tmp"):
            with suppress(OSError):
                old.unlink()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            self._lock.release()

    @property
    def due(self) -> bool:
        """Whether it is time to save again."""
        if self._path is None:
            return False
        return self._saved is None or time.monotonic() - self._saved >= self._interval

    def save(self, state: Callable[[], State]) -> None:
        """Replace the file by the state now."""
        if self._path is None:
            return
        content = self._content(state())
        if _state_of(self._path) != self._known:
            raise CheckpointError(
                f"checkpoint: expected a file that no other run saves to, got {self._path}, which "
                f"has changed since this run has last saved it; pass another path"
            )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace(self._path, content)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint: expected a file that can be written, got {self._path} "
                f"({error.strerror}); pass a path in a folder with room that you may write to"
            ) from error
        self._saved = time.monotonic()
        self._known = _state_of(self._path)

    def check(self, state: Callable[[], State]) -> None:
        """After the first step, make sure that its state can be saved as well."""
        if self._path is not None and not self._is_checked:
            self._is_checked = True
            self._content(state())

    def _content(self, state: State) -> BytesIO:
        content = BytesIO()
        torch.save({"run": self._identity, **state}, content)
        types = _types(state)
        if not types <= self._types:
            _check_plain(content)  # rather now than when it is needed
            self._types |= types
        return content

    def restore(self, load: Callable[[State], None], state: State) -> None:
        """Load a state from the file into a run.

        Raises:
            DamagedCheckpointError: If it is not that of a run.
        """
        try:
            load(state)
        except CheckpointError:
            raise
        except Exception as error:  # whatever may be in a file
            raise DamagedCheckpointError(
                f"checkpoint: expected a file of dubio.fit, got {self._path} with other content "
                f"({_reason(error)}); restore a copy, or delete the file to start anew"
            ) from error

    def load(self) -> State | None:
        """Return the state in the file, or None if there is no file yet."""
        try:
            if self._path is None or not self._path.is_file():
                return None
            state = _load(self._path)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint: expected a file that can be read, got {self._path} "
                f"({error.strerror}); change who may read it, or pass another path"
            ) from error
        found = state.get("run")
        if not isinstance(found, dict):
            raise CheckpointError(
                f"checkpoint: expected a file of dubio.fit, got {self._path} with something else "
                f"in it; pass another path"
            )
        differences = [
            f"{name} {found.get(name)} there and {self._identity.get(name)} here"
            for name in dict.fromkeys([*self._identity, *found])
            if not is_same(found.get(name), self._identity.get(name))
        ]
        if differences:
            more = f" and {len(differences) - 4} more" if len(differences) > 4 else ""
            raise CheckpointError(
                f"checkpoint: expected the run that was called for, got another in {self._path}: "
                f"{', '.join(differences[:4])}{more}; pass another path, or delete the file to "
                f"start anew"
            )
        self._saved = time.monotonic()
        return state


def _check_plain(content: BytesIO) -> None:
    """Check that the file can be loaded without running code in it."""
    content.seek(0)
    try:
        torch.load(content, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise CheckpointError(
            f"checkpoint: expected state_dicts of tensors, numbers, strings, lists and dicts, got "
            f"an object of another class in that of the objective, the optimizer or the schedule "
            f"({_reason(error)}); leave it out of get_extra_state and of the optimizer's state"
        ) from error


def _types(structure: Any) -> set[type]:
    """Return the classes of all that is in dicts, lists and tuples, and of these."""
    parts: Any = ()
    if isinstance(structure, dict):
        parts = (*structure.keys(), *structure.values())
    elif isinstance(structure, list | tuple):
        parts = structure
    return {type(structure)}.union(*map(_types, parts))


def _destination(path: Path) -> Path:
    """Return the file that is meant, behind any links."""
    place = path
    try:
        if path.is_symlink():
            place = Path(os.path.realpath(path))
        kind = place.lstat().st_mode
    except ValueError as error:
        raise CheckpointError(
            f"checkpoint: expected a path, got {str(path)!r} ({error}); pass another path"
        ) from error
    except OSError:  # none yet, or none that can be reached, which saving will tell
        return place
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise CheckpointError(
            f"checkpoint: expected a file, got {path}, which is a device, a pipe or a socket; pass "
            f"a path that is free"
        )
    return place


def _state_of(path: Path) -> tuple[int, int, int] | None:
    """Return a fingerprint of the file, to detect other writers; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _load(path: Path) -> State:
    """Read a file, with its checksums, as plain data: no code in it is run."""
    try:
        state = load(path)
    except PermissionError:
        raise
    except Exception as error:  # whatever bytes may bring about
        raise DamagedCheckpointError(
            f"checkpoint: expected a whole file of dubio.fit, got {path}, which cannot be read "
            f"({_reason(error)}); restore a copy, or delete the file to start anew"
        ) from error
    return state if isinstance(state, dict) else {}


def _reason(error: Exception) -> str:
    """Return the first sentence of an error: torch adds pages about its options."""
    return f"{type(error).__name__}: {str(error).partition('. ')[0]}"
