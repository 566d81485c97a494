"""Rows: the numbers of a run, each with what is needed to find it again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final, overload

Scalar = str | int | float | bool | None
Row = Mapping[str, Any]

UNCOMPARED = frozenset({"seconds", "cpu_seconds", "check", "code"})
"""Fields that may differ between two runs with the same results."""


@final
class Rows(Sequence[Row]):
    """The rows of a run, to be filtered by their fields."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> "Rows": ...

    def __getitem__(self, index: int | slice) -> "Row | Rows":
        return Rows(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def where(self, **fields: Scalar) -> "Rows":
        """The rows that have all these fields with these values."""
        return Rows(
            [r for r in self if all(name in r and r[name] == v for name, v in fields.items())]
        )

    def row(self, **fields: Scalar) -> Row:
        """The one row with these fields."""
        found = self.where(**fields)
        if len(found) != 1:
            raise LookupError(f"rows: expected one with {fields}, got {len(found)}.")
        return found[0]

    def value(self, **fields: Scalar) -> float:
        """The value of the one row with these fields."""
        return float(self.row(**fields)["value"])

    def values(self, name: str = "value") -> list[float]:
        """A field of all rows, as numbers."""
        return [float(r[name]) for r in self]

    def distinct(self, name: str) -> list[Any]:
        """The different values of a field, in the order of their first row."""
        return list(dict.fromkeys(r[name] for r in self if name in r))

    def comparable(self) -> list[dict[str, Any]]:
        """The rows without the fields that differ from run to run, such as seconds."""
        return [{name: v for name, v in r.items() if name not in UNCOMPARED} for r in self]
