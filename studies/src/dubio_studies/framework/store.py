"""The rows of a run on disk: written whole or not at all, checked when read.

    results/boluki2020/figure-1/small-1a2b3c4d/
        run.json          the recipe: study, scale, seed, settings, hash
        pieces/<key>.jsonl    the rows of a finished piece, while others are still to be done
        rows.jsonl        all rows, once every piece is done; then pieces/ is removed

Every row carries its number within its piece and a checksum, so that a file that was cut, emptied
or altered is noticed by line. Such a file is renamed to ``….damaged``; the pieces that are whole in
it are kept, the others are computed again. A lock lets one process at a time work on a run.
"""

import errno
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from dubio_studies.framework.recipe import Recipe, canonical, piece_key
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.study import Measurement, Piece

Pieces = dict[str, list[Row]]
"""Rows by the key of their piece."""

FIELDS = frozenset(
    ("study", "scale", "config", "seed", "metric", "value", "seconds", "versions", "piece", "row")
)
"""What every row has, besides its checksum."""

RESERVED = frozenset(
    ("study", "scale", "config", "piece", "row", "code", "seconds", "versions", "check")
)
"""What the store itself writes into a row."""


class StoreError(Exception):
    """A file that could not be read or written, and what to do about it."""


@final
class Store:
    """Where the rows of one run are kept.

    Args:
        root: The folder of all runs.
        recipe: Which run.

    Attributes:
        folder: The folder of this run.
        damaged: Files that were found damaged and set aside.
    """

    def __init__(self, root: Path, recipe: Recipe) -> None:
        self.folder = root / recipe.study / f"{recipe.scale}-{recipe.hash}"
        self.damaged: list[Path] = []
        self._recipe = recipe
        self._pieces = self.folder / "pieces"
        self._rows = self.folder / "rows.jsonl"

    @contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Work on this run alone; say so if another process must be waited for."""
        from filelock import FileLock, Timeout

        with explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / ".lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"{self.folder}: another process works on this run; waiting for it")
                lock.acquire()
        try:
            for leftover in self.folder.rglob(".*.tmp"):
                leftover.unlink(missing_ok=True)
            recipe = json.dumps(self._recipe.as_dict(), indent=2) + "\n"
            write_whole(self.folder / "run.json", recipe)
            yield
        finally:
            lock.release()

    def load(self) -> Pieces:
        """The rows of all finished pieces; damaged files are set aside."""
        pieces: Pieces = {}
        for path in [self._rows, *sorted(self._pieces.glob("*.jsonl"))]:
            if not path.exists():
                continue
            found, whole = read_pieces(path, self._recipe.hash)
            pieces |= found
            if not whole:
                self._set_aside(path, found)
        return pieces

    def save(self, piece: Piece, measurements: Sequence[Measurement], **facts: Any) -> list[Row]:
        """Keep the rows of a finished piece."""
        key = piece_key(piece)
        refuse_reserved(piece, *measurements)
        rows = [
            seal(
                {
                    "study": self._recipe.study,
                    "scale": self._recipe.scale,
                    "config": self._recipe.hash,
                    "seed": self._recipe.seed,
                    **piece,
                    **measurement,
                    **facts,
                    "piece": key,
                    "row": [number, len(measurements)],
                }
            )
            for number, measurement in enumerate(measurements, start=1)
        ]
        write_whole(self._pieces / f"{key}.jsonl", as_lines(rows))
        return rows

    def finish(self, pieces: Pieces) -> None:
        """Put the rows of all pieces into one file, in this order."""
        write_whole(self._rows, as_lines([row for rows in pieces.values() for row in rows]))
        for key in pieces:
            (self._pieces / f"{key}.jsonl").unlink(missing_ok=True)
        if self._pieces.is_dir() and not any(self._pieces.iterdir()):
            self._pieces.rmdir()

    @property
    def finished(self) -> bool:
        """Whether the run has ended, so that its rows are in one file."""
        return self._rows.exists()

    @property
    def scattered(self) -> bool:
        """Whether pieces have files of their own: added later, and not yet in that one."""
        return any(self._pieces.glob("*.jsonl"))

    def _set_aside(self, path: Path, whole: Pieces) -> None:
        with explained(path):
            os.replace(path, path.with_name(f"{path.name}.damaged"))
        self.damaged.append(path)
        for key, rows in whole.items():
            write_whole(self._pieces / f"{key}.jsonl", as_lines(rows))


def read_pieces(path: Path, config: str) -> tuple[Pieces, bool]:
    """The pieces that are whole in a file, and whether nothing else is in it."""
    with explained(path):
        lines = path.read_bytes().split(b"\n")
    rows = [unseal(line) for line in lines if line.strip()]
    pieces: Pieces = {}
    for row in rows:
        if row is not None and row["config"] == config:
            pieces.setdefault(row["piece"], []).append(row)
    whole = {
        key: rows
        for key, rows in pieces.items()
        if [row["row"] for row in rows] == [[i + 1, len(rows)] for i in range(len(rows))]
    }
    return whole, bool(rows) and sum(map(len, whole.values())) == len(rows)


def read_rows(folder: Path) -> Rows | None:
    """The rows of a finished run, or None if it is not finished. Nothing is changed."""
    path = folder / "rows.jsonl"
    if not path.exists():
        return None
    pieces, whole = read_pieces(path, folder.name.rpartition("-")[2])
    if not whole:
        raise StoreError(f"{path}: damaged; run the study again, which keeps what is whole in it.")
    return Rows([row for rows in pieces.values() for row in rows])


def stored_keys(folder: Path) -> set[str]:
    """The keys of the pieces that are whole in a run that is not finished. Nothing is changed."""
    config = folder.name.rpartition("-")[2]
    files = (folder / "pieces").glob("*.jsonl")
    return {key for path in files for key in read_pieces(path, config)[0]}


def read_recipe(folder: Path) -> Recipe:
    """The recipe of a run."""
    path = folder / "run.json"
    try:
        with explained(path):
            fields = json.loads(path.read_bytes())
        hashed = fields.pop("hash")
        recipe = Recipe(**fields)
        true = recipe.hash
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise StoreError(f"{path}: damaged ({reason}); run the study again.") from error
    if hashed != true or folder.name != f"{recipe.scale}-{true}":
        raise StoreError(
            f"{path}: expected the scale, settings and hash of {folder.name}, got a scale and "
            f"settings of {recipe.scale}-{true} and the hash {hashed}; it was altered. Run the "
            f"study again, which writes it anew."
        )
    return recipe


def refuse_reserved(*fields: Mapping[str, Any]) -> None:
    """Refuse pieces and measurements with fields that the store would overwrite."""
    if clash := RESERVED & {name for each in fields for name in each}:
        raise ValueError(
            f"{', '.join(sorted(clash))}: expected a name that the store does not use itself, in "
            "pieces and measurements; rename the field"
        )


def seal(row: Mapping[str, Any]) -> Row:
    """The row with its checksum."""
    return {**row, "check": checksum(row)}


def unseal(line: bytes) -> Row | None:
    """The row of a line, or None if the line is damaged."""
    try:
        row = json.loads(line)
        content = {name: value for name, value in row.items() if name != "check"}
        whole = row["check"] == checksum(content) and set(row) >= FIELDS
        return row if whole else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def checksum(row: Mapping[str, Any]) -> str:
    """CRC-32 of the row's canonical JSON."""
    return f"{zlib.crc32(canonical(dict(row)).encode()):08x}"


def as_lines(rows: Sequence[Row]) -> str:
    """JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that at every moment either the old one or the whole new one is there."""
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explained(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the file system say which file, and what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space" if full else "check this path"
        raise StoreError(
            f"{path}: {error.strerror or error}; {advice}, or choose another folder, and give the "
            f"same command again. What is finished is kept."
        ) from error
