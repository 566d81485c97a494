"""Training under faults: `python faulty_runs.py FOLDER` prints what has come out as JSON.

This process imports torch once and forks a child for every attempt, so that each can be killed,
have limits and be another user.
"""

import json
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

import dubio
from dubio.data import errors, files
from dubio.data.dataset import Dataset, Form
from dubio.data.download import download

NOBODY = 65534
STEPS = 12
_done: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()


class Loss(nn.Module):
    """Squared error of a network with dropout; calls a function before a step, if told to."""

    def __init__(self, before: Callable[[int], None] = lambda step: None, width: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, width), nn.Dropout(0.3), nn.Linear(width, 1))
        self.before = before

    @property
    def step(self) -> int:
        """Steps of this object: an attribute would go on with the run."""
        return _done.get(self, 0)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        _done[self] = self.step + 1
        self.before(self.step)
        return nn.functional.mse_loss(self.net(x), y)


def fit(objective: nn.Module, path: Path | None, save_every: float = 0.0) -> str:
    """Train; weights and history in the end, as text."""
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(5)
    history = dubio.fit(
        objective, (x, x.sum(1, keepdim=True)), epochs=3, batch_size=5,
        checkpoint=path, save_every=save_every,
    )  # fmt: skip
    state = objective.state_dict()
    numbers = [value.double().tolist() for value in state.values()]
    return repr((numbers, [{**row, "seconds": 0} for row in history.rows()]))


def child(work: Callable[[], object], note: Path | None = None) -> int:
    """Do something in a process of its own, which is still at it; its number."""
    number = os.fork()
    if number == 0:
        status = 1
        try:
            found = work()
            if note is not None:
                note.write_text(str(found))
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    return number


def outcome(number: int) -> int:
    """The exit code of a child, or minus the signal that has ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.002)


def message(work: Callable[[], object]) -> str:
    """What an error says."""
    try:
        return f"no error, but {work()}"
    except (dubio.CheckpointError, errors.DataError) as error:
        return f"{type(error).__name__}: {error}"


def kills(folder: Path) -> Any:
    """Kill a run that does little else than save, at 40 moments; then let it end."""
    width, path = 60_000, folder / "run.pt"  # megabytes, which take their time
    expected = fit(Loss(width=width), None)
    chance = random.Random(0)
    killed, damaged = 0, 0
    for _ in range(40):
        number = child(lambda: fit(Loss(width=width), path))
        time.sleep(chance.uniform(0, 0.15))
        os.kill(number, signal.SIGKILL)
        killed += outcome(number) == -signal.SIGKILL
        if path.exists():
            try:
                torch.load(path, weights_only=True)
            except Exception:
                damaged += 1
        if path.exists() and chance.random() < 0.3:
            path.unlink()  # or the run would soon be done
    found = fit(Loss(width=width), path)
    left = sorted(p.name for p in folder.iterdir())
    return {"killed": killed > 20, "damaged": damaged, "same": found == expected, "left": left}


def between_write_and_rename(folder: Path) -> Any:
    """Kill it when the new file is whole, and has not its name yet."""
    path, marker = folder / "run.pt", folder / "marker"
    expected = fit(Loss(), None)
    seen = []
    for saves in (1, 2, 5):
        replace, calls = os.replace, 0

        def hang(old: Any, new: Any, saves: int = saves, replace: Any = replace) -> None:
            nonlocal calls
            calls += 1
            if calls == saves:
                marker.write_text("")
                time.sleep(60)
            replace(old, new)

        os.replace = hang  # type: ignore[assignment]
        before = path.read_bytes() if path.exists() else None
        number = child(lambda: fit(Loss(), path))
        wait_for(marker)
        seen.append(any(p.name.endswith(".tmp") for p in folder.iterdir()))
        os.kill(number, signal.SIGKILL)
        outcome(number)
        os.replace = replace
        marker.unlink()
        if saves == 1:
            seen.append((path.read_bytes() if path.exists() else None) == before)
    same = fit(Loss(), path) == expected
    return {"temporary": seen, "same": same, "left": sorted(p.name for p in folder.iterdir())}


def two_processes(folder: Path) -> Any:
    """A second run with the checkpoint of one that is at work."""
    path, started, go = folder / "run.pt", folder / "started", folder / "go"
    expected = fit(Loss(), None)

    def pause(step: int) -> None:
        if step == 4:
            started.write_text("")
            wait_for(go)

    first = child(lambda: fit(Loss(pause), path), folder / "first")
    wait_for(started)
    content = path.read_bytes()
    second = message(lambda: fit(Loss(), path))
    untouched = path.read_bytes() == content
    go.write_text("")
    ended = outcome(first)
    again = message(lambda: fit(Loss(), path))
    return {
        "second": second,
        "untouched": untouched,
        "first": [ended, (folder / "first").read_text() == expected],
        "later": again == f"no error, but {expected}",
        "left": sorted(p.name for p in folder.iterdir()),
    }


def many_processes(folder: Path) -> Any:
    """Eight at once, from nothing: one trains, or some one after the other; none is damaged."""
    path = folder / "run.pt"
    expected = fit(Loss(), None)
    notes = [folder / f"note{k}" for k in range(8)]
    numbers = [child(lambda: message(lambda: fit(Loss(), path)), note) for note in notes]
    codes = [outcome(number) for number in numbers]
    said = [note.read_text() for note in notes]
    done = [text for text in said if text == f"no error, but {expected}"]
    refused = [text for text in said if "no other run saves to" in text]
    return {"codes": codes, "done": len(done) > 0, "sum": len(done) + len(refused),
            "whole": fit(Loss(), path) == expected}  # fmt: skip


def killed_with_heirs(folder: Path) -> Any:
    """A run is killed while a process that it has forked, as workers are, lives on."""
    path, started = folder / "run.pt", folder / "started"
    expected = fit(Loss(), None)

    def fork(step: int) -> None:
        if step == 4:
            heir = child(lambda: time.sleep(30))
            started.write_text(str(heir))
            time.sleep(30)

    number = child(lambda: fit(Loss(fork), path))
    wait_for(started)
    time.sleep(0.1)
    os.kill(number, signal.SIGKILL)
    outcome(number)
    found = message(lambda: fit(Loss(), path))
    os.kill(int(started.read_text()), signal.SIGKILL)
    return found == f"no error, but {expected}"


def threads(folder: Path) -> Any:
    """Two runs in one process."""
    path, started, go = folder / "run.pt", threading.Event(), threading.Event()
    found: list[str] = []

    def pause(step: int) -> None:
        if step == 4:
            started.set()
            go.wait(60)

    thread = threading.Thread(target=lambda: found.append(message(lambda: fit(Loss(pause), path))))
    thread.start()
    started.wait(60)
    second = message(lambda: fit(Loss(), path))
    go.set()
    thread.join()
    return [second, found[0].startswith("no error")]


def changed_by_others(folder: Path) -> Any:
    """Somebody who knows of no locks writes the file."""
    path = folder / "run.pt"

    def meddle(step: int) -> None:
        if step == 4:
            other = folder / "other"
            other.write_bytes(b"theirs")
            os.replace(other, path)

    return [message(lambda: fit(Loss(meddle), path)), path.read_bytes().decode()]


def terminated(folder: Path) -> Any:
    """SIGTERM in the middle of a step: it is saved, and the process ends by the signal."""
    expected = fit(Loss(), None)
    found = []
    for step_of_end in (1, 6, STEPS):
        path = folder / f"{step_of_end}.pt"

        def end(step: int, last: int = step_of_end) -> None:
            if step == last:
                os.kill(os.getpid(), signal.SIGTERM)

        code = outcome(child(partial(fit, Loss(end), path, save_every=1e9)))
        objective = Loss()
        same = fit(objective, path, save_every=1e9) == expected
        found.append([code, objective.step, same])
    return found


def terminated_with_a_handler(folder: Path) -> Any:
    """A handler of the user's own still runs, after the save, and then stands as before."""
    path = folder / "run.pt"
    expected = fit(Loss(), None)

    def end(step: int) -> None:
        if step == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    def work() -> None:
        def leave(*_: object) -> None:
            raise SystemExit(7)

        signal.signal(signal.SIGTERM, leave)
        try:
            fit(Loss(end), path, save_every=1e9)
        except SystemExit as error:
            assert signal.getsignal(signal.SIGTERM) is leave
            os._exit(int(str(error)))

    code = outcome(child(work))
    objective = Loss()
    return [code, fit(objective, path) == expected, objective.step]


def terminated_twice(folder: Path) -> Any:
    """The second one does not wait."""

    def end(step: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    start = time.monotonic()
    code = outcome(child(lambda: fit(Loss(end), folder / "run.pt")))
    return [code, time.monotonic() - start < 20]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path | None]:
    """A file system of a given size; None if nobody may mount one."""
    place = folder / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def full_disk(folder: Path) -> Any:
    """There is room for the first checkpoint, and not for the next beside it."""
    expected = fit(Loss(width=2000), None)
    with small_disk(folder, "800k") as place:
        if place is None:
            return None
        path = place / "run.pt"

        def fill(step: int) -> None:
            if step == 4:
                with (place / "filler").open("wb", buffering=0) as file, suppress(OSError):
                    while True:
                        file.write(b"x" * 4096)

        said = message(lambda: fit(Loss(fill, width=2000), path))
        left = sorted(p.name for p in place.iterdir())
        whole = isinstance(torch.load(path, weights_only=True), dict)
        (place / "filler").unlink()
        objective = Loss(width=2000)
        same = fit(objective, path) == expected
        return {"said": said, "left": left, "whole": whole, "same": same, "steps": objective.step}


def full_from_the_start(folder: Path) -> Any:
    """There is no room at all."""
    with small_disk(folder, "8k") as place:
        if place is None:
            return None
        objective = Loss(width=2000)
        said = message(lambda: fit(objective, place / "run.pt"))
        left = sorted(p.name for p in place.iterdir() if p.suffix != ".lock")
        return [said, objective.step, left]


def limited_size(folder: Path) -> Any:
    """A limit on the size of files, as a quota would be; it is lifted, and the run goes on."""
    path = folder / "run.pt"
    expected = fit(Loss(width=2000), None)

    def limit(step: int) -> None:
        if step == 4:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))

    note = folder / "note"
    os.mkfifo(note)
    number = child(lambda: _tell(note, message(lambda: fit(Loss(limit, width=2000), path))))
    said = note.read_text()
    outcome(number)
    note.unlink()
    left = sorted(p.name for p in folder.iterdir())
    objective = Loss(width=2000)
    return {"said": said, "left": left, "same": fit(objective, path) == expected,
            "steps": objective.step}  # fmt: skip


def _tell(note: Path, text: str) -> None:
    with note.open("w") as file:
        file.write(text)


def as_nobody(work: Callable[[], object], note: Path) -> str:
    """What somebody without rights is told."""
    note.write_text("")
    note.chmod(0o666)

    def give_up_rights() -> object:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return message(work)

    assert outcome(child(give_up_rights, note)) == 0
    return note.read_text()


def other_user(folder: Path) -> Any:
    """Folders that somebody else may read and not write, or not even read."""
    modes = {parent: stat.S_IMODE(parent.stat().st_mode) for parent in (folder, *folder.parents)}
    closed = {parent: mode for parent, mode in modes.items() if mode & 0o005 != 0o005}
    try:
        for parent, mode in closed.items():
            parent.chmod(mode | 0o055)
        return _as_another(folder)
    finally:
        for parent, mode in closed.items():
            parent.chmod(mode)


def _as_another(folder: Path) -> Any:
    note = folder / "note"
    locked, secret = folder / "locked", folder / "secret"
    locked.mkdir()
    secret.mkdir()
    done, part = locked / "done.pt", locked / "part.pt"
    expected = fit(Loss(), done)

    def stop(step: int) -> None:
        if step == 7:
            raise KeyError

    with suppress(KeyError):
        fit(Loss(stop), part)
    content = part.read_bytes()
    published = b"content"
    digest = f"sha256:{sha256(published).hexdigest()}"
    here = files.File("here.bin", len(published), digest)
    absent = files.File("absent.bin", len(published), digest, url="http://127.0.0.1:9/none")
    (locked / "here.bin").write_bytes(published)
    (secret / "here.bin").write_bytes(published)
    (locked / "inner").mkdir()
    (locked / "inner" / "here.bin").write_bytes(published)
    (locked / "inner").chmod(0o700)
    secret.chmod(0o700)
    locked.chmod(0o555)

    def locate(variable: str, place: Path, file: files.File) -> Callable[[], object]:
        def work() -> object:
            os.environ.pop("DUBIO_DATA", None)
            os.environ["DUBIO_CACHE"] = str(folder / "no cache")
            os.environ[variable] = str(place)
            form = Form("the original", (file,))
            return Dataset("made-up", "Made up", "", "", "", (form,)).locate().paths[0]

        return work

    def fetch() -> object:
        os.environ["DUBIO_CACHE"] = str(locked)
        return download(absent)

    inner = files.File("inner/here.bin", len(published), digest)
    found = {
        "a new run": as_nobody(lambda: fit(Loss(), locked / "new.pt"), note),
        "a run that goes on": as_nobody(lambda: fit(Loss(), part), note),
        "a run that is done": as_nobody(lambda: fit(Loss(), done), note)
        == f"no error, but {expected}",
        "a secret folder": as_nobody(lambda: fit(Loss(), secret / "x.pt"), note),
        "data": as_nobody(locate("DUBIO_DATA", locked, here), note),
        "cache": as_nobody(locate("DUBIO_CACHE", locked, here), note),
        "download": as_nobody(fetch, note),
        "secret data": as_nobody(locate("DUBIO_DATA", secret, here), note),
        "below secret data": as_nobody(locate("DUBIO_DATA", secret / "deep", here), note),
        "secret cache": as_nobody(locate("DUBIO_CACHE", secret, here), note),
        "secret folder in data": as_nobody(locate("DUBIO_DATA", locked, inner), note),
        "all data": as_nobody(_available(secret), note),
    }
    part.chmod(0o600)
    found["a secret checkpoint"] = as_nobody(lambda: fit(Loss(), part), note)
    (locked / "here.bin").chmod(0o600)
    found["secret file"] = as_nobody(locate("DUBIO_DATA", locked, here), note)
    found["untouched"] = part.read_bytes() == content
    return found


def _available(place: Path) -> Callable[[], object]:
    def work() -> object:
        os.environ["DUBIO_DATA"] = str(place)
        return dubio.data.available()

    return work


SCENARIOS: dict[str, Callable[[Path], Any]] = {
    function.__name__: function
    for function in (
        kills, between_write_and_rename, two_processes, many_processes, killed_with_heirs, threads,
        changed_by_others, terminated, terminated_with_a_handler, terminated_twice, full_disk,
        full_from_the_start, limited_size, other_user,
    )
}  # fmt: skip


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1)])  # imports much, once for all children
    for module in ("requests", "pooch"):  # who has given up rights cannot import them
        errors.extra(module)
    found = {}
    for name, scenario in SCENARIOS.items():
        (folder / name).mkdir()
        try:
            found[name] = scenario(folder / name)
        except Exception:
            found[name] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
