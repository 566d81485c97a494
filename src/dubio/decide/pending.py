"""Choices that wait for their reward."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, final

import torch
from torch import Tensor

_NAMED = 5  # ids that an error names


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """Choices, a row each.

    Attributes:
        contexts: What was known, `(B, ...)`.
        actions: What was done, `(B,)`.
        probabilities: How probable each action was, `(B, A)`.
        allowed: Which actions could be taken, `(B, A)`.
    """

    contexts: Tensor
    actions: Tensor
    probabilities: Tensor
    allowed: Tensor

    def __len__(self) -> int:
        return len(self.actions)


@final
class Pending:
    """Choices by their ids 0, 1, …, until they are answered or forgotten."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Chosen, int]] = {}  # id -> its batch, and the row there
        self._next = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def count(self) -> int:
        """Number of ids issued."""
        return self._next

    @property
    def ids(self) -> Tensor:
        """All that wait, in the order in which they were made."""
        return torch.tensor(list(self._rows), dtype=torch.int64)

    def enter(self, chosen: Chosen) -> Tensor:
        """Return new ids for these choices."""
        first, self._next = self._next, self._next + len(chosen)
        for row in range(len(chosen)):
            self._rows[first + row] = chosen, row
        return torch.arange(first, self._next)

    def check(self, ids: Sequence[int]) -> None:
        """Raise an error for ids that are not pending."""
        unknown = [one for one in ids if not 0 <= one < self._next]
        if unknown:
            given = f"there were {self._next} choices" if self._next else "there was no choice yet"
            raise KeyError(
                f"ids: expected ids of choices, got {_listed(unknown)}, which are unknown "
                f"({given}); pass choice.id"
            )
        gone = [one for one in ids if one not in self._rows]
        if gone:
            raise ValueError(
                f"ids: expected choices that wait for a reward, got {_listed(gone)}, which were "
                "answered or forgotten already; send each reward once, agent.pending lists the rest"
            )
        if len(set(ids)) != len(ids):
            twice = [one for place, one in enumerate(ids) if one in ids[:place]]
            raise ValueError(
                f"ids: expected each id once, got {_listed(twice)} twice; send each reward once"
            )

    def get(self, ids: Sequence[int]) -> Chosen:
        """Return the choices of these ids."""
        found = [self._rows[one] for one in ids]
        first = found[0][0]
        if all(batch is first for batch, _ in found):
            rows = torch.tensor([row for _, row in found])
            return Chosen(*(getattr(first, field.name)[rows] for field in fields(Chosen)))
        return Chosen(
            *(
                torch.stack([getattr(batch, field.name)[row] for batch, row in found])
                for field in fields(Chosen)
            )
        )

    def remove(self, ids: Sequence[int]) -> None:
        """Remove choices."""
        for one in ids:
            del self._rows[one]

    def state(self) -> dict[str, Any]:
        """Return what to save."""
        ids = list(self._rows)
        kept = vars(self.get(ids)) if ids else None
        return {"next": self._next, "ids": ids, "rows": kept}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._next = state["next"]
        self._rows = {}
        if state["ids"]:
            chosen = Chosen(**state["rows"])
            self._rows = {one: (chosen, row) for row, one in enumerate(state["ids"])}


def _listed(ids: Sequence[int]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(map(str, ids[:_NAMED])) + more
