"""Validation users: whether they are kept apart from the training."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dubio.recommend.histories import histories
from dubio.recommend.keyed_noise import Seeds, hashed

_LONG = 5  # items of a history that hardly two users have in common
_CHANCE = 0.05  # share of users whose history may be that of another


def check_validation(user_items: csr_array, validation: Any) -> tuple[csr_array, csr_array]:
    """Fold-in and held-out items of users, neither of which the training may have seen together.

    Either users are other than those of the training, or their held-out items were taken out of
    it. Otherwise the best epoch would be the one that has learnt them by heart.
    """
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise TypeError(
            f"validation: expected a pair of matrices, (fold_in, held_out), got "
            f"{type(validation).__name__}; give parts.validation"
        )
    fold_in, held_out = validation
    shown = histories(fold_in, user_items.shape[1], "validation fold_in")
    wanted = histories(held_out, user_items.shape[1], "validation held_out")
    if shown.shape != wanted.shape or wanted.nnz == 0:
        raise ValueError(
            f"validation: expected fold-in and held-out items of the same users, got shapes "
            f"{shown.shape} and {wanted.shape}, with {wanted.nnz} held-out items; split them "
            "with recommend.by_users"
        )
    whole = csr_array(shown + wanted)
    long = (np.diff(whole.indptr) >= _LONG) & (np.diff(wanted.indptr) > 0)
    seen = long & np.isin(_fingerprints(whole), _fingerprints(user_items))
    if seen.sum() > max(1, _CHANCE * long.sum()):
        raise ValueError(
            f"validation: expected held-out items that the training does not see, got "
            f"{int(seen.sum())} of {len(seen)} users whose fold-in and held-out items together are "
            "a row of user_items; take these users, or their held-out items, out of it"
        )
    return shown, wanted


def _fingerprints(matrix: csr_array) -> Seeds:
    """Return a number for each row that depends on its set of items."""
    bits = hashed(np.zeros(1, np.uint64), matrix.indices)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(bits, dtype=np.uint64)])  # mod 2⁶⁴
    return np.asarray(sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]])
