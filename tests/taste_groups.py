"""Users of a few tastes: data that a recommender learns in a second."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

ITEMS = 40


class Groups(NamedTuple):
    """Training users, and others whose items are split."""

    train: csr_array
    fold_in: csr_array
    held_out: csr_array


def taste_groups(users: int = 200, others: int = 60, seed: int = 0) -> Groups:
    """Each of four tastes likes ten of the items, and some of the rest.

    The first item is in no history, and the first user of each part has none.
    """
    rng = np.random.default_rng(seed)

    def histories(count: int) -> np.ndarray:
        taste = rng.integers(4, size=count)
        liked = np.arange(ITEMS) // 10 == taste[:, None]
        found = rng.random((count, ITEMS)) < np.where(liked, 0.6, 0.05)
        found[:, 0] = False
        found[0] = False
        return found

    whole = histories(others)
    held = rng.random(whole.shape) < 0.3
    parts = (histories(users), whole & ~held, whole & held)
    return Groups(*(csr_array(part.astype(np.float32)) for part in parts))
