"""What every recommender can do: batches, draws, candidates, files."""

from typing import Any, Self

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dubio.recommend import Recommender
from dubio.recommend.histories import histories
from dubio.recommend.keyed_noise import Seeds, normal
from dubio.recommend.storage import take


class Wobbly(Recommender):
    """Popularity plus normal noise of standard deviation 1, an own number for user and item."""

    stochastic = True

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        self._items = user_items.shape[1]
        self._shares = torch.from_numpy(histories(user_items).mean(0)).float()
        return self

    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        scores = self._shares.repeat(histories.shape[0], 1) * self.weight
        return scores if seeds is None else scores + normal(seeds[:, None], range(self._items))

    def _state(self) -> dict[str, Tensor]:
        return {"shares": self._shares}

    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        self._shares = take(tensors, "shares", (self._items,))


@pytest.fixture
def matrix() -> csr_array:
    rng = np.random.default_rng(0)
    return csr_array((rng.random((40, 12)) < np.linspace(0.1, 0.6, 12)).astype(np.float32))


@pytest.fixture
def model(matrix: csr_array) -> Wobbly:
    return Wobbly().fit(matrix)


class TestScores:
    def test_mean_and_spread_are_those_of_a_loop(self, model: Wobbly, matrix: csr_array) -> None:
        many = model.recommend(matrix, 12, draws=7, generator=3, exclude_seen=False)
        one = [
            model.recommend(matrix[:, :], 12, draws=7, generator=3, exclude_seen=False)
            for _ in range(2)
        ]
        assert (one[0].ids == one[1].ids).all()
        from dubio.recommend.keyed_noise import draw_seeds, user_keys

        keys = user_keys(np.arange(40))
        draws = torch.stack(
            [model._scores(matrix, draw_seeds(3, keys, draw)) for draw in range(7)]
        )  # (S, B, I)
        for user in range(40):
            ids = many.ids[user]
            assert sorted(ids) == list(range(12))
            np.testing.assert_allclose(many.scores[user], draws[:, user].mean(0)[ids], rtol=1e-4)
            np.testing.assert_allclose(many.spread[user], draws[:, user].std(0)[ids], rtol=1e-4)
            assert (np.diff(many.scores[user]) <= 0).all()
