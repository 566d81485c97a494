"""The most popular items, the same for all users: the baseline of every model."""

from typing import Any, Self, final

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dubio.recommend.keyed_noise import Seeds
from dubio.recommend.recommender import Recommender
from dubio.recommend.storage import take


@final
class Popular(Recommender):
    """A baseline that scores items by their share of training users."""

    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Count the users of each item; validation users are not needed."""
        given = self._training_data(user_items)
        self._shares = popularity(given)
        self._learnt(given.shape[1])
        return self

    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        return self._shares.repeat(histories.shape[0], 1)

    def _state(self) -> dict[str, Tensor]:
        return {"shares": self._shares}

    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        self._shares = take(tensors, "shares", (self._items,))


def popularity(histories: csr_array) -> Tensor:
    """Return the share of users with each item, (I,) float32."""
    users, items = histories.shape
    return torch.from_numpy(np.bincount(histories.indices, minlength=items) / max(users, 1)).float()
