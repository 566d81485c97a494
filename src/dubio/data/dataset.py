"""Data sets, the forms in which each exists, and where a form is found."""

import os
from abc import ABC
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import final

import torch

from dubio.data.download import cache_directory, download
from dubio.data.errors import DataError, folder_from, unreadable
from dubio.data.files import File, digest, verify


@final
@dataclass(frozen=True)
class Form:
    """One way in which a data set is stored.

    Attributes:
        text: What it is, and how it differs from the original.
        files: All of them are needed.
        by_hand: How to get the files where they cannot be downloaded.
        faithful: Whether it holds everything that the original holds.
    """

    text: str
    files: tuple[File, ...]
    by_hand: str = ""
    faithful: bool = True

    @property
    def obtainable(self) -> bool:
        """Whether every file that is not here can be downloaded."""
        return all(file.downloadable or find(file) for file in self.files)

    def obtain(self) -> "Copy":
        """Download missing files, and verify all."""
        copy = Copy(self, tuple(find(file) or download(file) for file in self.files))
        copy.verify()
        return copy


@final
@dataclass(frozen=True)
class Dataset:
    """A data set, wherever it may be.

    Attributes:
        name: In the inventory.
        title: In words.
        licence: What its owners allow.
        cite: Whom to cite.
        page: Where it is described.
        forms: The best first.
    """

    name: str
    title: str
    licence: str
    cite: str
    page: str
    forms: tuple[Form, ...]

    def here(self) -> "Copy | None":
        """Return the best form of which every file is here, unread; None if there is none."""
        for form in self.forms:
            paths = tuple(path for path in map(find, form.files) if path is not None)
            if len(paths) == len(form.files):
                return Copy(form, paths)
        return None

    def locate(self) -> "Copy":
        """Return the best form that is here, or else the best that can be downloaded; verified."""
        copy = self.here()
        form = copy.form if copy else next((form for form in self.forms if form.obtainable), None)
        if form is None:
            raise DataError(self._missing())
        return form.obtain()

    def _missing(self) -> str:
        files = " or ".join(", ".join(file.path for file in form.files) for form in self.forms)
        looked = ", ".join(f"{name} ({folder})" for name, folder in places().items())
        hints = "; or ".join(form.by_hand for form in self.forms if form.by_hand)
        return (
            f"{self.title}: expected {files}, got nothing in {looked or 'DUBIO_DATA (not set)'}, "
            f"and it cannot be downloaded with a check; {hints}"
        )


@final
@dataclass(frozen=True)
class Copy:
    """A form of a data set that is here, and its files in the order of the form."""

    form: Form
    paths: tuple[Path, ...]

    def verify(self) -> None:
        """Raise a DataError that names the file if one is incomplete or damaged."""
        for file, path in zip(self.form.files, self.paths, strict=True):
            verify(file, path)

    @property
    def source(self) -> str:
        """The form and its files in words; with checksums where none was published."""
        pairs = zip(self.form.files, self.paths, strict=True)
        return f"{self.form.text}: {', '.join(_describe(file, path) for file, path in pairs)}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Loaded(ABC):
    """What a loader returns.

    Attributes:
        source: Which form was read, how it differs from the original, and where it lies.
    """

    source: str

    def __repr__(self) -> str:
        parts = (f"{field.name}={_brief(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({', '.join(parts)})"


def data_directory() -> Path | None:
    """``DUBIO_DATA``, if it is set."""
    directory = folder_from("DUBIO_DATA")
    if directory is None:
        return None
    if not os.path.isdir(directory):
        what = "a file" if os.path.exists(directory) else "nothing that can be reached"
        raise DataError(
            f"DUBIO_DATA: expected a folder, got {directory}, where there is {what}; create it, "
            "set another one, or unset it"
        )
    if not os.access(directory, os.R_OK | os.X_OK):
        raise DataError(
            f"DUBIO_DATA: expected a folder that can be read, got {directory}, which you may not "
            "read; ask for the right to, set another one, or unset it"
        )
    return directory


def places() -> dict[str, Path]:
    """Return the folders to look in, in this order, by name."""
    directory = data_directory()
    found = {} if directory is None else {"DUBIO_DATA": directory}
    with suppress(ImportError):  # without pooch nothing has been cached
        found["cache"] = cache_directory()
    return found


def find(file: File) -> Path | None:
    """Return the path of a file or folder in ``DUBIO_DATA``, else in the cache, else None."""
    paths = (folder / file.path for folder in places().values())
    try:
        return next((path for path in paths if path.exists()), None)
    except OSError as error:
        raise unreadable(error) from error


def _describe(file: File, path: Path) -> str:
    if file.checked:
        return str(path)
    return f"{path} (unverified{'' if path.is_dir() else f', {digest(path)}'})"


def _brief(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{tuple(value.shape)}"
    if isinstance(value, tuple) and len(value) > 4:
        return f"{len(value)} × {type(value[0]).__name__}"
    return repr(value)
