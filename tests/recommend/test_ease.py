"""EASE against column-wise ridge regression, and what it does with memory."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from dubio.recommend import EASE, Popular, Recommender, ease


@pytest.fixture
def matrix() -> csr_array:
    found = random_array((80, 23), density=0.2, rng=np.random.default_rng(0), format="csr")
    dense = (found.toarray() > 0).astype(np.float32)
    dense[:, 11] = 0  # an item that nobody had
    return csr_array(dense)


def ridge(dense: np.ndarray, weight_decay: float) -> np.ndarray:
    """Each item regressed on all others, in float64, one at a time."""
    items = dense.shape[1]
    weights = np.zeros((items, items))
    for item in range(items):
        others = np.delete(np.arange(items), item)
        left = dense[:, others]
        system = left.T @ left + weight_decay * np.eye(items - 1)
        weights[others, item] = np.linalg.solve(system, left.T @ dense[:, item])
    return weights


@pytest.mark.parametrize("rows", [1, 5, 23, 512])
@pytest.mark.parametrize("weight_decay", [0.5, 20.0])
def test_it_is_ridge_regression_on_the_other_items(
    matrix: csr_array, weight_decay: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ease, "_ROWS", rows)
    model = EASE(weight_decay).fit(matrix)
    expected = ridge(matrix.toarray().astype(float), weight_decay)
    np.testing.assert_allclose(model.weights, expected, atol=2e-6)
    assert (model.weights.diagonal() == 0).all()
    assert (model.weights[11] == 0).all()
    assert (model.weights[:, 11] == 0).all()


def test_scores_and_similar_items(matrix: csr_array) -> None:
    model = EASE(5.0).fit(matrix)
    weights = ridge(matrix.toarray().astype(float), 5.0)
    with_history = matrix[np.diff(matrix.indptr) > 0]
    found = model.recommend(with_history, 23, exclude_seen=False)
    scores = with_history.toarray() @ weights
    np.testing.assert_allclose(found.scores, -np.sort(-scores, axis=1), atol=1e-5)
    assert model.similar_items([3], 1).ids[0, 0] == np.argmax(
        np.where(np.arange(23) == 3, -np.inf, weights[3])
    )


def test_an_empty_history_gets_what_is_popular(matrix: csr_array) -> None:
    dense = matrix.toarray()[:2].copy()
    dense[0] = 0
    found = EASE().fit(matrix).recommend(csr_array(dense), 3)
    popular = Popular().fit(matrix).recommend(csr_array((1, 23)), 3)
    np.testing.assert_array_equal(found.ids[:1], popular.ids)
    np.testing.assert_array_equal(found.scores[:1], popular.scores)
    alone = EASE().fit(matrix).recommend(matrix[1:2], 3)
    np.testing.assert_array_equal(found.scores[1:], alone.scores)


def test_users_in_another_order_give_the_same_weights(matrix: csr_array) -> None:
    order = np.random.default_rng(1).permutation(80)
    one, two = EASE().fit(matrix).weights, EASE().fit(matrix[order]).weights
    np.testing.assert_allclose(one, two, atol=1e-7)


def test_there_and_back(matrix: csr_array, tmp_path: Path) -> None:
    model = EASE(7.0).fit(matrix)
    model.save(tmp_path / "ease")
    back = Recommender.load(tmp_path / "ease")
    assert isinstance(back, EASE)
    assert back.weight_decay == 7.0
    assert (back.weights == model.weights).all()
    for given in (matrix, csr_array((2, 23))):
        np.testing.assert_array_equal(back.recommend(given).scores, model.recommend(given).scores)


class TestMemory:
    def test_too_little_is_an_error_before_anything_is_done(self, tmp_path: Path) -> None:
        meminfo = tmp_path / "meminfo"
        meminfo.write_text("MemTotal:  100 kB\nMemAvailable:    1000000 kB\n")
        with pytest.raises(MemoryError, match=r"expected 7\.4 GB .* 40981 × 40981 .*got 1\.0 GB"):
            ease.check_memory(40_981, meminfo)
        ease.check_memory(10_000, meminfo)

    def test_where_nobody_knows(self, tmp_path: Path) -> None:
        ease.check_memory(10**6, tmp_path / "nothing")
        (tmp_path / "old").write_text("MemTotal: 100 kB\n")
        ease.check_memory(10**6, tmp_path / "old")

    def test_one_matrix(self) -> None:
        """The peak is that of one matrix and some rows, not of two matrices."""
        given = csr_array(random_array((500, 3000), density=0.01, rng=np.random.default_rng(0)))
        tracemalloc.start()
        try:
            EASE().fit(given)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert 1 < peak / (4 * 3000**2) < 1.8


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf")])
def test_weight_decay(bad: float) -> None:
    with pytest.raises(ValueError, match="weight_decay: expected a finite number above 0"):
        EASE(bad)


def test_a_matrix_that_is_singular_in_float32() -> None:
    many = csr_array(np.ones((20_000, 40)))
    with pytest.raises(ValueError, match=r"positive definite in float32.*choose a larger one"):
        EASE(1e-12).fit(many)


def test_not_fitted() -> None:
    with pytest.raises(RuntimeError, match="EASE: expected a fitted model"):
        _ = EASE().weights
