"""Splits of interactions for training, validation and test; no interaction is in two parts.

- `by_users`: models see none of the test users before the test (Liang et al. 2018).
- `by_ratio`: a share of every user's interactions is held out at random.
- `by_time`: what came last is held out, of all interactions or of every user's.

A held-out user has fold-in items, which a model is shown, and held-out items, which it should
find. What is random is a function of the seed and of the matrix.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dubio.recommend.arguments import number, whole
from dubio.recommend.histories import histories
from dubio.recommend.times import check_times

Array: TypeAlias = npt.NDArray[Any]
NumpySeed: TypeAlias = int | np.random.Generator

_SHARE = number(above=0, below=1, advice="0.2 is common")


@final
@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a split, all users × items with the same items.

    Attributes:
        train: The training matrix.
        validation_fold_in: The items of validation users that a model is shown.
        validation_held_out: The items that it should find; the same users.
        test_fold_in: The items of test users that a model is shown.
        test_held_out: The items that it should find; the same users.
        items: For each column, its position in the original matrix.
        train_users: For each row of ``train``, its position in the original matrix.
        validation_users: For each row of the validation, its position there.
        test_users: For each row of the test, its position there.
    """

    train: csr_array
    validation_fold_in: csr_array
    validation_held_out: csr_array
    test_fold_in: csr_array
    test_held_out: csr_array
    items: npt.NDArray[np.int64]
    train_users: npt.NDArray[np.int64]
    validation_users: npt.NDArray[np.int64]
    test_users: npt.NDArray[np.int64]

    @property
    def validation(self) -> tuple[csr_array, csr_array]:
        """Fold-in and held-out items of the validation users, as `Recommender.fit` takes them."""
        return self.validation_fold_in, self.validation_held_out

    @property
    def test(self) -> tuple[csr_array, csr_array]:
        """Fold-in and held-out items of the test users, as `evaluate` takes them."""
        return self.test_fold_in, self.test_held_out


def by_users(
    user_items: Any,
    validation: int,
    test: int,
    *,
    held_out: float = 0.2,
    at_least: int = 5,
    seed: NumpySeed = 0,
) -> Parts:
    """Hold out users, for strong generalisation (Liang et al. 2018, section 4.1).

    Users with fewer than ``at_least`` items are left out, and then items that no training user
    has. Of a held-out user with n items, n·``held_out``, rounded down, are held out at random;
    none if they are fewer than ``at_least``.

    Args:
        user_items: Users × items; see `histories`.
        validation: How many users to keep for the validation.
        test: How many for the test.
        held_out: The share of items to be found.
        at_least: The least number of items.
        seed: An integer, or a generator of numpy.
    """
    given = histories(user_items)
    rng = _random(seed)
    _SHARE("held_out", held_out)
    whole(0, advice="5 is common")("at_least", at_least)
    for name, count in (("validation", validation), ("test", test)):
        whole(0, advice="give a number of users, 0 or more, not a share")(name, count)
    fit = np.flatnonzero(np.diff(given.indptr) >= at_least)
    if validation + test >= len(fit):
        raise ValueError(
            f"validation, test: expected together fewer than the {len(fit)} users with at least "
            f"{at_least} items, got {validation} and {test}; hold out fewer"
        )
    order = rng.permutation(fit)
    validated, tested, trained = map(np.sort, np.split(order, [validation, validation + test]))
    items = np.unique(given[trained].indices).astype(np.int64)

    def halves(users: Array) -> tuple[csr_array, csr_array]:
        matrix = histories(given[users][:, items])
        hidden = _from_the_end(matrix, rng.random(matrix.nnz), held_out, at_least)
        return _some(matrix, ~hidden), _some(matrix, hidden)

    return Parts(
        histories(given[trained][:, items]),
        *halves(validated),
        *halves(tested),
        items,
        trained,
        validated,
        tested,
    )


def by_ratio(
    user_items: Any, validation: float = 0.1, test: float = 0.2, *, seed: NumpySeed = 0
) -> Parts:
    """Hold out a share of each user's items, rounded down, at random.

    Every part has all users. In the test a model is shown what it was trained on and what it was
    validated on.

    Args:
        user_items: Users × items; see `histories`.
        validation: The share to be found in the validation.
        test: The share to be found in the test.
        seed: An integer, or a generator of numpy.
    """
    given = histories(user_items)
    return _last(given, _random(seed).random(given.nnz), validation, test)


def by_time(
    user_items: Any,
    times: npt.ArrayLike,
    validation: float = 0.1,
    test: float = 0.1,
    *,
    per_user: bool = False,
) -> Parts:
    """Hold out the latest items of each user.

    Every part has all users, some without items. In the test a model is shown what it was trained
    on and what it was validated on.

    Args:
        user_items: Users × items; see `histories`.
        times: Of each entry, in the order of ``user_items.indices``, as in `Interactions`.
        validation: The share of interactions to be found in the validation, those before the test.
        test: The share to be found in the test, the last ones.
        per_user: Whether to hold out the last of every user's items, rounded down, equal times in
            the order of the items; else the last of all interactions, where equal times stay
            together, in the later part.
    """
    given = histories(user_items)
    when = np.asarray(times)
    aligned = user_items.format == "csr" and np.array_equal(given.indices, user_items.indices)
    if not aligned or when.shape != (given.nnz,):
        raise ValueError(
            f"times: expected a time for each of {given.nnz} entries of a CSR matrix with sorted "
            f"indices, without duplicates and stored zeros, got shape {when.shape}; take both from "
            "from_frame(frame, time=…)"
        )
    check_times(when, "times")
    if per_user:
        return _last(given, when, validation, test)
    _check_shares(validation, test)
    if not given.nnz:
        raise ValueError("user_items: expected interactions, got none; give some")
    ordered = np.sort(when)
    start_test = ordered[given.nnz - max(1, int(test * given.nnz))]
    start = ordered[given.nnz - max(1, int((validation + test) * given.nnz))]
    if start == ordered[0]:
        raise ValueError(
            "times: expected interactions before those that are held out, got as many equal times; "
            "hold out fewer"
        )
    tested = (when >= start_test) & (test > 0)
    return _all_users(given, (when >= start) & ~tested, tested)


def _last(given: csr_array, keys: Array, validation: float, test: float) -> Parts:
    """Split off the items with the largest keys: test last, validation before it."""
    _check_shares(validation, test)
    tested = _from_the_end(given, keys, test, 1)
    rest = _from_the_end(given, keys, validation, 1, after=tested)
    return _all_users(given, rest, tested)


def _all_users(given: csr_array, validated: Array, tested: Array) -> Parts:
    users = np.arange(given.shape[0])
    train = _some(given, ~(validated | tested))
    return Parts(
        train=train,
        validation_fold_in=train.copy(),
        validation_held_out=_some(given, validated),
        test_fold_in=_some(given, ~tested),
        test_held_out=_some(given, tested),
        items=np.arange(given.shape[1]),
        train_users=users,
        validation_users=users,
        test_users=users,
    )


def _from_the_end(
    matrix: csr_array, keys: Array, share: float, at_least: int, after: Array | None = None
) -> npt.NDArray[np.bool_]:
    """Return which entries have the largest keys of their row: a share of the row, rounded down.

    Args:
        matrix: Users × items.
        keys: Of each entry, (nnz,).
        share: Of the entries of a row.
        at_least: Rows with fewer entries have none.
        after: Entries with the largest keys that are taken already.
    """
    counts = np.diff(matrix.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((np.arange(matrix.nnz), keys, row))
    from_end = np.empty(matrix.nnz, np.int64)
    from_end[order] = np.repeat(matrix.indptr[1:], counts) - 1 - np.arange(matrix.nnz)
    wanted = np.where(counts >= at_least, np.floor(share * counts + 1e-9), 0).astype(np.int64)
    if after is None:
        return np.asarray(from_end < wanted[row])
    taken = np.bincount(row[after], minlength=len(counts))
    return np.asarray((from_end >= taken[row]) & (from_end < (taken + wanted)[row]))


def _some(matrix: csr_array, entries: Array) -> csr_array:
    """Return the matrix with only these of its entries."""
    counts = np.concatenate([[0], np.cumsum(entries)])
    ones = np.ones(int(counts[-1]), np.float32)
    return csr_array((ones, matrix.indices[entries], counts[matrix.indptr]), shape=matrix.shape)


def _random(seed: NumpySeed) -> np.random.Generator:
    if not isinstance(seed, np.random.Generator):
        seed = whole(0, advice="0 will do, or numpy.random.default_rng()")("seed", seed)
    return np.random.default_rng(seed)


def _check_shares(validation: float, test: float) -> None:
    for name, share in (("validation", validation), ("test", test)):
        number(advice="give a share, such as 0.1")(name, share)
    if min(validation, test) < 0 or not 0 < validation + test < 1:
        raise ValueError(
            "validation, test: expected shares of which the sum is between 0 and 1, got "
            f"{validation} and {test}; 0.1 and 0.2 leave 0.7 for the training"
        )
