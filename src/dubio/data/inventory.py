"""The inventory: which data sets are available, their sources, and how to get the others."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, final

from dubio.data import (
    amino_acids,
    cifar,
    curves,
    digits,
    interactions,
    large_ratings,
    mushrooms,
    ratings,
    reviews,
    scenes,
    tables,
    weights,
)
from dubio.data.dataset import Copy, Dataset, Form, places
from dubio.data.errors import DataError

Status: TypeAlias = Literal["here", "lesser copy", "damaged", "missing"]

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for family in (
        tables, curves, digits, cifar, mushrooms, reviews, amino_acids, ratings,
        interactions, large_ratings, scenes, weights,
    )
    for dataset in family.DATASETS
}  # fmt: skip


@final
@dataclass(frozen=True)
class Holding:
    """The local state of a data set.

    Attributes:
        name: Name of the data set.
        title: Its title.
        status: Intact, a lossy or smaller copy of the original, damaged, or missing.
        size: Bytes of the local files.
        form: Which form is stored, and how it differs from the original.
        files: Paths of the files of that form.
        how_to_get: What to do if it is not intact.
        licence: What its owners allow.
        cite: The work to cite.
        page: The page it comes from.
    """

    name: str
    title: str
    status: Status
    size: int
    form: str
    files: tuple[str, ...]
    how_to_get: str
    licence: str
    cite: str
    page: str


class Inventory(list[Holding]):
    """A list of holdings that prints as a table with notes."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the holdings as plain values for JSON."""
        return [{**asdict(holding), "files": list(holding.files)} for holding in self]

    def __str__(self) -> str:
        header = ("data set", "status", "size", "licence", "from")
        rows = [(h.name, h.status, _size(h), h.licence, h.page) for h in self]
        lesser = [(h.name, h.form) for h in self if h.status == "lesser copy"]
        wanted = [(h.name, h.how_to_get) for h in self if h.how_to_get]
        parts = [
            _aligned([header, *rows]),
            _places(),
            _notes("Lesser copies", lesser),
            _notes("How to get", wanted),
        ]
        return "\n\n".join(filter(None, parts))

    __repr__ = __str__


def available() -> Inventory:
    """List all data sets that dubio can read and their local state. Files are verified."""
    return Inventory(map(_look, DATASETS.values()))


def fetch_original(name: str) -> str:
    """Download the original of a data set to the cache, even if a lesser copy exists.

    Args:
        name: The name, as in the inventory.

    Returns:
        A description of the files.
    """
    if name not in DATASETS:
        raise ValueError(f"name: expected one of {', '.join(DATASETS)}, got {name!r}")
    best = DATASETS[name].forms[0]
    if not best.obtainable:
        raise DataError(f"{name}: expected a source that can be checked, got none; {best.by_hand}")
    return best.obtain().source


def _look(dataset: Dataset) -> Holding:
    copy = dataset.here()
    status, how_to_get = _judge(dataset, copy)
    paths = () if copy is None else copy.paths
    return Holding(
        name=dataset.name,
        title=dataset.title,
        status=status,
        size=sum(path.stat().st_size for path in paths if path.is_file()),
        form="" if copy is None else copy.form.text,
        files=tuple(map(str, paths)),
        how_to_get=how_to_get,
        licence=dataset.licence,
        cite=dataset.cite,
        page=dataset.page,
    )


def _judge(dataset: Dataset, copy: Copy | None) -> tuple[Status, str]:
    """Return the status of a data set, and what to do about it."""
    if copy is None:
        return "missing", _advice(dataset.forms, "use it, and it will be downloaded")
    try:
        copy.verify()
    except DataError as error:
        return "damaged", str(error)
    if copy.form.faithful:
        return "here", ""
    return "lesser copy", _advice(dataset.forms[:1], f"fetch_original({dataset.name!r}) downloads")


def _advice(forms: tuple[Form, ...], download: str) -> str:
    """Return how to get one of the forms."""
    for form in forms:
        urls = [file.url for file in form.files if file.url and file.downloadable]
        if urls and form.obtainable:
            return f"{download} from {', '.join(urls)}"
    return "; or ".join(form.by_hand for form in forms if form.by_hand)


def _places() -> str:
    found = {"DUBIO_DATA": "not set", **places()}
    return "\n".join(f"{name}: {folder}" for name, folder in found.items())


def _size(holding: Holding) -> str:
    return f"{holding.size / 1e6:.2f} MB" if holding.files else "-"


def _notes(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    lines = [f"  {name}: {text}" for name, text in pairs]
    return "\n".join([title, *lines]) if lines else ""


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
