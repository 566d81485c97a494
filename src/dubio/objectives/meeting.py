"""Whether rows of a batch interact: whether a mask of one row affects the loss of another."""

from typing import Any, final

import torch

from dubio.objectives.reach import Reaches, UnknownReachError
from dubio.objectives.reach_rules import follow
from dubio.objectives.record import Record, Source, StoragePlace

_MANY = 64  # records


@final
class Meetings:
    """Remembers of records of passes whether rows meet in them."""

    def __init__(self) -> None:
        self._known: dict[Any, bool] = {}

    def __reduce__(self) -> tuple[type["Meetings"], tuple[()]]:
        return Meetings, ()  # copies find out for themselves

    def rows_meet(self, record: Record, losses: StoragePlace, rows: int) -> bool:
        """Return whether the loss of a row may depend on what masks let through in another.

        Args:
            record: What the pass did.
            losses: The losses, or the outputs that they come from, with rows on the first axis.
            rows: How many there are.
        """
        if record.lost:
            return True
        key = (tuple(record.steps), losses, rows)
        known = self._known.get(key)
        if known is None:
            if len(self._known) == _MANY:
                self._known.clear()
            known = self._known[key] = _rows_meet(record, losses, rows)
        return known


def _rows_meet(record: Record, losses: StoragePlace, rows: int) -> bool:
    if losses.storage < 0 or losses.shape[0] != rows or rows >= 2**24:
        return True
    reaches = Reaches(rows)
    try:
        for step in record.steps:
            if isinstance(step, Source):
                reaches.begin(step)
            else:
                follow(step, reaches)
        return not torch.equal(reaches.read(losses).by_row(), reaches.own)
    except UnknownReachError:
        return True
