"""The folder of an agent: a file with its state, and a journal of later calls."""

import io
import math
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from dubio import plain_files
from dubio.decide import journal
from dubio.decide.journal import Event, Journal
from dubio.training.errors import CheckpointError, DamagedCheckpointError
from dubio.training.lock import Lock

FORMAT = "dubio.decide.Bandit 1"
_STATE = "agent.pt"
State = dict[str, Any]
Fingerprint: TypeAlias = tuple[tuple[str, int, int, int], ...]


def write(folder: Path, state: State, following: str | None = None) -> None:
    """Replace the state in a folder in one go.

    Args:
        folder: Made if it is not there.
        state: Tensors, numbers, strings, lists and dicts.
        following: The journal that goes on from here, if there is one.
    """
    content = io.BytesIO()
    torch.save({"format": FORMAT, "journal": following, "state": _plain(state)}, content)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        plain_files.replace(folder / _STATE, content)
    except OSError as error:
        raise _cannot_write(folder, error) from error


def write_alone(folder: Path, state: State) -> None:
    """Replace the state in a folder that no agent is kept in."""
    with suppress(OSError):  # writing will tell
        folder.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    try:
        write(folder, state)
    finally:
        lock.release()


def read(folder: Path) -> tuple[State, Iterator[Event]]:
    """Return the state in a folder, and the calls since. No code in it is run."""
    path = folder / _STATE
    if not path.is_file():
        raise FileNotFoundError(
            f"folder: expected one of a saved agent, got {folder}; check the path"
        )
    try:
        found = plain_files.load(path)
    except Exception as error:  # whatever bytes may bring about
        raise DamagedCheckpointError(
            f"folder: expected a whole file, got {path}, which cannot be read "
            f"({type(error).__name__}); restore a copy"
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(
            f"folder: expected a state of {FORMAT}, got {path} with something else in it; pass "
            "another folder, or save the agent with this version of dubio"
        )
    if found["journal"] is None:
        return found["state"], iter(())
    following = folder / found["journal"]
    if not following.is_file():
        raise DamagedCheckpointError(
            f"folder: expected the journal {following.name} beside {path}, got none; restore a "
            "copy of the whole folder"
        )
    return found["state"], journal.read(following)


def holds_agent(folder: Path) -> bool:
    """Return whether an agent was saved there."""
    return (folder / _STATE).is_file()


def fingerprint(folder: Path) -> Fingerprint:
    """Return something that differs after the agent there was written to."""
    paths = sorted([folder / _STATE, *folder.glob("journal.*")])
    found = [(path.name, path.stat()) for path in paths if path.is_file()]
    return tuple((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in found)


@final
class KeptFolder:
    """A folder that follows an agent, call by call.

    A new journal is begun before the state that names it takes its place, and the former one goes
    last. A process that is killed at any moment leaves a state and its journal.

    Args:
        folder: The folder, for this agent alone.
        state: Of the agent now.
        save_every: Seconds between snapshots.

    Attributes:
        folder: As given.
    """

    def __init__(self, folder: Path, state: State, save_every: float) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error) from error
        self.folder = folder
        self._save_every = save_every
        self._journal: Journal | None = None
        self._saved = -math.inf
        self._process = os.getpid()
        self._lock = _locked(folder)
        try:
            self.snapshot(state)
        except BaseException:
            self._lock.release()
            raise

    def append(self, event: Event, state: Callable[[], State]) -> None:
        """Keep an event that has happened; as part of a snapshot if it is time for one."""
        self._check_process()
        late = time.monotonic() - self._saved >= self._save_every
        if self._journal is None or late or self._journal.is_deleted:
            self.snapshot(state())
            return
        try:
            self._journal.append(event)
        except OSError as error:
            self._let_go()  # the next call takes a snapshot, which has the event in it
            raise _cannot_write(self.folder, error) from error

    def snapshot(self, state: State) -> None:
        """Replace the state in the folder, and begin a new journal."""
        self._check_process()
        used = [path.name.rpartition(".")[2] for path in self.folder.glob("journal.*")]
        number = 1 + max((int(one) for one in used if one.isdigit()), default=-1)
        name = f"journal.{number}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            begun = Journal(self.folder / name)
        except OSError as error:
            raise _cannot_write(self.folder, error) from error
        try:
            write(self.folder, state, name)
        except BaseException:
            begun.close()
            raise
        self._let_go()
        self._journal = begun
        self._saved = time.monotonic()
        for old in self.folder.glob("journal.*"):
            if old.name != name:
                with suppress(OSError):
                    old.unlink()

    def close(self) -> None:
        """Release the folder."""
        if os.getpid() != self._process:
            return  # it is still kept there
        self._let_go()
        self._lock.release()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise CheckpointError(
                f"folder: expected the process that keeps the agent in {self.folder}, got a fork "
                "of it; use copy.deepcopy(agent) there, and pass rewards to the first process"
            )

    def _let_go(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _locked(folder: Path) -> Lock:
    """Return the right to write to a folder, to be released."""
    lock = Lock(folder / _STATE)
    if not lock.take():
        raise CheckpointError(
            f"folder: expected one that no other agent is kept in, got {folder}, which one is at "
            "this moment; close it, or pass another folder"
        )
    return lock


def _plain(value: Any) -> Any:
    """Return plain Python numbers: reading numpy's would run code."""
    if isinstance(value, dict):
        return {_plain(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def _cannot_write(folder: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"folder: expected one that can be written, got {folder} ({error.strerror}); pass a folder "
        "with room that you may write to"
    )


def pickled(parts: Mapping[str, Any]) -> dict[str, Tensor | str]:
    """Return each part as bytes, or the reason why it cannot be pickled."""
    found: dict[str, Tensor | str] = {}
    for name, part in parts.items():
        content = io.BytesIO()
        try:
            torch.save(part, content)
        except (AttributeError, TypeError, pickle.PicklingError, RuntimeError) as error:
            found[name] = f"{type(error).__name__}: {error}"
        else:
            found[name] = torch.frombuffer(bytearray(content.getvalue()), dtype=torch.uint8)
    return found


def unpickled(name: str, part: Tensor | str) -> Any:
    """Return a part that was pickled. This may run any code that is in it."""
    if isinstance(part, str):
        raise CheckpointError(
            f"{name}: expected one that could be pickled, got {part}; pass it: "
            f"Bandit.load(folder, {name}=…)"
        )
    return torch.load(io.BytesIO(part.numpy().tobytes()), weights_only=False)
