"""Splits: nothing in two parts, nothing lost, and the last are the last."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from dubio.recommend import Parts, by_ratio, by_time, by_users

RNG = np.random.default_rng(0)
MATRIX = csr_array(random_array((200, 60), density=0.15, format="csr", rng=RNG))
MATRIX.sort_indices()
TIMES = RNG.integers(0, 1000, MATRIX.nnz)


def pairs(matrix: csr_array, users: Any = None, items: Any = None) -> set[tuple[int, int]]:
    """Interactions by the positions in the matrix that was split."""
    row, column = matrix.nonzero()
    users = np.arange(matrix.shape[0]) if users is None else users
    items = np.arange(matrix.shape[1]) if items is None else items
    return set(zip(users[row].tolist(), items[column].tolist(), strict=True))


ALL = pairs(MATRIX)


def rows(matrix: csr_array) -> list[set[int]]:
    return [
        set(matrix.indices[a:b]) for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False)
    ]


class TestByUsers:
    @pytest.fixture
    def parts(self) -> Parts:
        return by_users(MATRIX, 30, 40, at_least=6, seed=1)

    def test_no_user_is_in_two_parts(self, parts: Parts) -> None:
        sets = [set(parts.train_users), set(parts.validation_users), set(parts.test_users)]
        assert sum(map(len, sets)) == len(set.union(*sets))
        assert (len(sets[1]), len(sets[2])) == (30, 40)
        enough = set(np.flatnonzero(np.diff(MATRIX.indptr) >= 6))
        assert set.union(*sets) == enough

    def test_parts_are_those_of_the_matrix(self, parts: Parts) -> None:
        trained = pairs(parts.train, parts.train_users, parts.items)
        of_train = set(parts.train_users)
        assert trained == {pair for pair in ALL if pair[0] in of_train}
        assert set(parts.items) == {item for _, item in trained}
        for (fold_in, held_out), users in (
            (parts.validation, parts.validation_users),
            (parts.test, parts.test_users),
        ):
            shown, hidden = (pairs(part, users, parts.items) for part in (fold_in, held_out))
            assert not shown & hidden
            known = set(parts.items)
            expected = {(u, i) for u, i in ALL if u in set(users) and i in known}
            assert shown | hidden == expected

    def test_a_fifth_is_held_out(self, parts: Parts) -> None:
        for fold_in, held_out in (parts.validation, parts.test):
            hidden = np.diff(held_out.indptr)
            count = np.diff(fold_in.indptr) + hidden
            np.testing.assert_array_equal(hidden, np.where(count >= 6, count // 5, 0))

    def test_items_of_the_held_out_are_random(self) -> None:
        """Each item of one user is held out in 1/5 of 800 splits; false alarms below 10⁻⁶.

        The deviation of a count is 11; ten comparisons of 6 deviations: 2·10⁻⁸.
        """
        matrix = csr_array(np.ones((3, 10)))
        counts = np.zeros(10)
        for seed in range(800):
            counts[by_users(matrix, 1, 1, seed=seed).test_held_out.indices] += 1
        assert abs(counts - 160).max() < 6 * (800 * 0.2 * 0.8) ** 0.5

    def test_an_item_that_no_training_user_has_goes(self) -> None:
        dense = np.ones((9, 8))
        dense[:, 7] = 0
        dense[0, 7] = 1
        seen = set()
        for seed in range(20):
            parts = by_users(csr_array(dense), 4, 4, seed=seed)
            seen.add(7 in parts.items)
            assert (7 in parts.items) == (0 in parts.train_users)
            assert parts.test_fold_in.shape == (4, len(parts.items))
        assert seen == {True, False}

    def test_users_are_random(self) -> None:
        """Each of 50 users is tested in 1/5 of 500 splits; 6 deviations of 9: 50 · 2·10⁻⁹."""
        matrix = csr_array(np.ones((50, 5)))
        counts = np.zeros(50)
        for seed in range(500):
            counts[by_users(matrix, 5, 10, seed=seed).test_users] += 1
        assert abs(counts - 100).max() < 6 * (500 * 0.2 * 0.8) ** 0.5

    def test_too_many(self) -> None:
        with pytest.raises(ValueError, match="fewer than the 10 users with at least 1 items"):
            by_users(csr_array(np.ones((10, 4))), 5, 5, at_least=1)


class TestByRatio:
    def test_each_user_is_split(self) -> None:
        parts = by_ratio(MATRIX, 0.1, 0.3, seed=2)
        whole = rows(MATRIX)
        for user, (train, validation, test, shown) in enumerate(
            zip(
                rows(parts.train), rows(parts.validation_held_out), rows(parts.test_held_out),
                rows(parts.test_fold_in), strict=True,
            )
        ):  # fmt: skip
            n = len(whole[user])
            assert len(validation) == n // 10
            assert len(test) == 3 * n // 10
            assert train | validation | test == whole[user]
            assert len(train) + len(validation) + len(test) == n
            assert shown == train | validation
        assert pairs(parts.validation_fold_in) == pairs(parts.train)

    def test_shares_are_not_lost_by_rounding(self) -> None:
        """In floating point 0.29 · 100 < 29."""
        parts = by_ratio(csr_array(np.ones((1, 100))), 0.57, 0.29)
        assert parts.test_held_out.nnz == 29
        assert parts.validation_held_out.nnz == 57

    def test_a_user_of_one_item_is_trained_on(self) -> None:
        parts = by_ratio(csr_array(np.eye(3)), 0.1, 0.8)
        assert parts.train.nnz == 3


class TestByTime:
    def test_of_all(self) -> None:
        parts = by_time(MATRIX, TIMES, 0.1, 0.2)
        when = csr_array((TIMES + 1, MATRIX.indices, MATRIX.indptr), shape=MATRIX.shape)
        train, validation, test = (
            (when * part).data
            for part in (parts.train, parts.validation_held_out, parts.test_held_out)
        )
        assert train.max() < validation.min() <= validation.max() < test.min()
        assert len(train) + len(validation) + len(test) == MATRIX.nnz
        assert len(test) >= int(0.2 * MATRIX.nnz)
        assert len(test) < 0.22 * MATRIX.nnz
        assert pairs(parts.test_fold_in) == pairs(parts.train) | pairs(parts.validation_held_out)

    def test_of_each_user(self) -> None:
        parts = by_time(MATRIX, TIMES, 0.2, 0.2, per_user=True)
        whole = rows(MATRIX)
        for user in range(len(whole)):
            items = MATRIX.indices[MATRIX.indptr[user] : MATRIX.indptr[user + 1]]
            when = TIMES[MATRIX.indptr[user] : MATRIX.indptr[user + 1]]
            order = sorted(range(len(items)), key=lambda i: (when[i], items[i]))
            fifth = len(items) // 5
            last = {items[i] for i in order[len(items) - fifth :]}
            before = {items[i] for i in order[len(items) - 2 * fifth : len(items) - fifth]}
            assert rows(parts.test_held_out)[user] == last
            assert rows(parts.validation_held_out)[user] == before

    def test_equal_times_stay_together(self) -> None:
        parts = by_time(csr_array(np.ones((2, 4))), [0, 0, 0, 1, 1, 1, 2, 2], 0.1, 0.1)
        assert parts.test_held_out.nnz == 2
        assert parts.validation_held_out.nnz == 0
        with pytest.raises(ValueError, match="got as many equal times"):
            by_time(csr_array(np.ones((2, 4))), np.zeros(8))

    def test_times_of_another_matrix(self) -> None:
        with pytest.raises(ValueError, match="times: expected a time for each of"):
            by_time(MATRIX, TIMES[1:])
        unsorted = csr_array((np.ones(2), [1, 0], [0, 2]), shape=(1, 2))
        with pytest.raises(ValueError, match="with sorted indices"):
            by_time(unsorted, [1, 2])


@pytest.mark.parametrize("split", [by_ratio, lambda m, seed: by_users(m, 20, 20, seed=seed)])
def test_seeds(split: Any) -> None:
    def test_of(seed: Any) -> Any:
        return split(MATRIX, seed=seed).test_held_out.toarray()

    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]
    np.testing.assert_array_equal(test_of(3), test_of(3))
    np.testing.assert_array_equal(test_of(3), test_of(np.random.default_rng(3)))
    assert test_of(3).shape != test_of(4).shape or (test_of(3) != test_of(4)).any()
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # type: ignore[index]


@pytest.mark.parametrize("shares", [(0.5, 0.5), (-0.1, 0.2), (0.0, 0.0)])
def test_shares(shares: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="shares of which the sum is between 0 and 1"):
        by_ratio(MATRIX, *shares)
    with pytest.raises(
        ValueError, match="held_out: expected a finite number above 0 and below 1, got 1"
    ):
        by_users(MATRIX, 1, 1, held_out=1)


@pytest.mark.parametrize("per_user", [False, True])
def test_times_that_are_nan_are_an_error(per_user: bool) -> None:
    times = np.arange(MATRIX.nnz, dtype=float)
    times[5] = np.nan
    with pytest.raises(ValueError, match="times: expected"):
        by_time(MATRIX, times, 0.1, 0.1, per_user=per_user)


def test_a_negative_number_of_users_is_named() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        by_users(MATRIX, -1, 5)


@pytest.mark.parametrize(("validation", "test"), [(0.2, 0.0), (0.0, 0.2)])
def test_a_share_of_nothing_holds_out_nothing(validation: float, test: float) -> None:
    parts = by_time(MATRIX, np.arange(MATRIX.nnz), validation, test)
    assert (parts.validation_held_out.nnz > 0) == (validation > 0)
    assert (parts.test_held_out.nnz > 0) == (test > 0)
