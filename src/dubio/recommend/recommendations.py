"""Recommendations: items, their scores and the spread of these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dubio.recommend.catalogue import Catalogue


@final
@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best items of each user, the best first.

    A user with fewer than n candidates has id −1, score −∞ and spread NaN at the end.

    Attributes:
        ids: Items, positions in the columns of the matrix, (B, n) int64.
        scores: (B, n) float32. What it means depends on the model; of a VAE it is a probability.
        spread: Standard deviation of a score between draws, with the divisor ``draws − 1``,
            (B, n) float32. 0 if the model has no noise, and NaN if there was one draw or none.
        total: Sum of the probabilities of all candidates of a user, (B,) float32: ``scores /
            total`` are those among the candidates. NaN if the scores are no probabilities: those of
            other models, and bounds (``explore="upper"``).
        users: The ids of the users, if they were given.
        catalogue: External ids, if the model has them.
    """

    ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    spread: npt.NDArray[np.float32]
    total: npt.NDArray[np.float32]
    users: Sequence[Any] | npt.NDArray[Any] | None = None
    catalogue: Catalogue | None = None

    @classmethod
    def none(
        cls,
        users: int,
        n: int,
        names: Sequence[Any] | npt.NDArray[Any] | None = None,
        catalogue: Catalogue | None = None,
    ) -> Self:
        """Return an empty result with room for n items per user."""
        return cls(
            ids=np.full((users, n), -1, np.int64),
            scores=np.full((users, n), -np.inf, np.float32),
            spread=np.full((users, n), np.nan, np.float32),
            total=np.full(users, np.nan, np.float32),
            users=names,
            catalogue=catalogue,
        )

    def enter(self, rows: slice, ids: Tensor, scores: Tensor, spread: Tensor) -> None:
        """Enter the items of some users, (B, n) or fewer columns; −∞ means none."""
        found = (scores > -torch.inf).numpy()
        columns = slice(found.shape[1])
        self.ids[rows, columns] = np.where(found, ids.numpy(), -1)
        self.scores[rows, columns] = scores.numpy()
        self.spread[rows, columns] = np.where(found, spread.numpy(), np.nan)

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """Where there is a recommendation, (B, n)."""
        return self.ids >= 0

    def __len__(self) -> int:
        return len(self.ids)

    def to_frame(self) -> Any:
        """Return a pandas data frame with user, item, rank, score and spread.

        There is one row per recommendation. Items are external ids if the model has a catalogue,
        and users if they were given to `Recommender.recommend`; otherwise they are positions.
        """
        import pandas

        row, column = np.nonzero(self.found)
        items = self.ids[row, column]
        users = row if self.users is None else [self.users[position] for position in row.tolist()]
        return pandas.DataFrame(
            {
                "user": users,
                "item": items if self.catalogue is None else self.catalogue.items.ids(items),
                "rank": column + 1,
                "score": self.scores[row, column],
                "spread": self.spread[row, column],
            }
        )
