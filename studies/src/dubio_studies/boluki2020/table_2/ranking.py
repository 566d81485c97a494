"""Rankings of test users: which items were found, how high, and how sure the model was."""

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch

from dubio.ranks import RANKS
from dubio.recommend import Recommender
from dubio_studies.boluki2020.tasks import DEPTH, Pair

Floats: TypeAlias = npt.NDArray[np.float64]

GROUPS = 200  # of users, whose means are stored


@final
@dataclass(frozen=True, eq=False)
class Ranking:
    """The best items of the users with held-out items.

    Attributes:
        users: Rows in the matrix of the test, (B,).
        ids: Items, (B, R).
        scores: Means over draws, (B, R).
        spread: Standard deviations between draws, (B, R); NaN without draws.
        total: The sum of the scores of all items that could be recommended, (B,).
        found: Whether an item was held out, (B, R).
        wanted: How many were held out, (B,).
    """

    users: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    spread: npt.NDArray[np.float32]
    total: npt.NDArray[Any]
    found: npt.NDArray[np.bool_]
    wanted: npt.NDArray[np.int64]

    @classmethod
    def of(cls, model: Recommender, test: Pair, draws: int, seed: int = 0) -> "Ranking":
        """Rank the items that test users have not seen.

        Args:
            model: Fitted.
            test: What it is shown, and what it should find.
            draws: Of the noise; 0 for a pass without.
            seed: Of the noise.
        """
        shown, held_out = test
        users = np.flatnonzero(np.diff(held_out.indptr))
        wanted = held_out[users]
        depth = min(DEPTH, shown.shape[1])
        given = model.recommend(shown[users], depth, draws=draws, generator=seed, users=users)
        row = np.repeat(np.arange(len(users)), np.diff(wanted.indptr))
        pairs = row * wanted.shape[1] + wanted.indices
        asked = np.arange(len(users))[:, None] * wanted.shape[1] + given.ids
        found = np.isin(asked, pairs) & given.found
        counts = np.diff(wanted.indptr).astype(np.int64)
        return cls(users, given.ids, given.scores, given.spread, given.total, found, counts)

    def by_user(self, metric: str) -> Floats:
        """A metric with its cut-off, such as ``ndcg@100``, of each user."""
        name, _, cutoff = metric.partition("@")
        found, wanted = torch.from_numpy(self.found), torch.from_numpy(self.wanted)
        return np.asarray(RANKS[name](found, wanted, int(cutoff)).numpy())

    @property
    def predicted_hits(self) -> Floats:
        """1 − (1 − p)ᵐ for m held-out items and the probability p of an item to be next, (B, R)."""
        share = self.scores.astype(np.float64) / self.total[:, None]
        return np.asarray(1 - (1 - share) ** self.wanted[:, None])


def group_means(values: Floats) -> str:
    """Means over groups of users, as text: enough to compare two models user by user."""
    groups = min(GROUPS, len(values))
    which = np.arange(len(values)) % groups
    means = np.bincount(which, values) / np.bincount(which)
    return " ".join(f"{mean:.4f}" for mean in means)


def mean_and_error(values: Floats) -> tuple[float, float]:
    """The mean over users and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)
