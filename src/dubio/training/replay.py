"""Compare replayed batches of an epoch with the original ones."""

import warnings
from typing import Any, final

from dubio.training.batches import UNSEEN, Batch, checksum_of
from dubio.training.random_state import RandomState


@final
class Replay:
    """Compares the first batch with that of before, and the last if it can be the same.

    The first is made from the random numbers of the epoch's start alone. Later ones may also have
    drawn from generators that the network draws from between batches. It does not do so now: they
    are then others, and are thrown away.

    Args:
        first: Checksum of the first batch.
        last: Checksum of the last one; None if it is not known.
        random: Where random numbers come from.
        now: Where they stood when the last batch was done.
    """

    def __init__(
        self, first: int | None, last: int | None, random: RandomState, now: dict[str, Any]
    ) -> None:
        self._first = first
        self._last = last
        self._random = random
        self._now = now
        self._after_first: dict[str, Any] = {}

    def see(self, number: int, batch: Batch) -> None:
        """Warn if a batch, the first or the last, is another."""
        if number == 1:
            self._after_first = self._random.get()
            expected = self._first
        elif self._random.has_moved_as(self._after_first, self._now):
            expected = self._last
        else:
            return
        if expected is not None and checksum_of(batch.arguments) != expected:
            warnings.warn(
                f"checkpoint: expected the same batches as before, got others; the run "
                f"continues with other numbers: {UNSEEN}",
                RuntimeWarning,
                stacklevel=5,
            )
