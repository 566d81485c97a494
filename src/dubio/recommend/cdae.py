"""Collaborative denoising autoencoders: a vector for each user."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from dubio.masks import Bernoulli
from dubio.recommend.autoencoder import Autoencoder
from dubio.recommend.candidates import Items, item_positions
from dubio.recommend.denoising import DenoisingNetwork
from dubio.recommend.keyed_noise import Seeds
from dubio.recommend.masks_by_name import MakeMask, make_mask
from dubio.recommend.rates import RateEstimator
from dubio.recommend.recommendations import Recommendations
from dubio.recommend.sparse import SparseRows

NEW_USER = -1


@final
class CDAE(Autoencoder):
    """CDAE: σ(W′σ(Wx̃ + v_u + b) + b′), with a vector v_u for each user (Wu et al. 2016).

    It is trained with a logistic likelihood of every item. The vectors tie it to the users of the
    training, so that `recommend` must be told who they are: ``users`` are their rows in the
    training matrix. A new user is −1 and has a vector of zero, which is a guess.

    Args:
        hidden: Units of its one hidden layer.
        mask: A class of `dubio.masks`, which is called as ``mask(items, drop=drop)``, so that every
            item has its own rate; None for no mask.
        drop: The rate, or the one to start from.
        estimator: Of the gradient for the rates of `masks.LearnableBernoulli`, as in `VAE`.
        weight_decay: λ of the penalty ½λ‖W‖².
    """

    probabilities = False
    knows_users = True

    def __init__(
        self,
        hidden: int = 200,
        mask: MakeMask | None = Bernoulli,
        drop: float = 0.5,
        estimator: RateEstimator = "trapezoid",
        weight_decay: float = 4e-5,
    ) -> None:
        self.hidden = hidden
        self.mask = mask
        self.drop = drop
        self.estimator = estimator
        self.weight_decay = weight_decay
        self.stochastic = mask is not None

    def _build(self, items: int, users: int) -> DenoisingNetwork:
        return DenoisingNetwork(
            items,
            self.hidden,
            make_mask(self.mask, items, self.drop),
            estimator=self.estimator,
            likelihood="logistic",
            users=users,
        )

    def recommend(
        self,
        user_items: Any,
        n: int = 10,
        *,
        users: Sequence[Any] | npt.NDArray[Any] | None = None,
        **options: Any,
    ) -> Recommendations:
        """The n best items for each user; see `Recommender.recommend`.

        Args:
            user_items: Histories, users × items, a scipy sparse matrix.
            n: How many items.
            users: The row of each user in the training matrix; −1 for a new user.
            options: Those of `Recommender.recommend`.
        """
        if users is None:
            raise ValueError(
                "users: expected the rows of these users in the training matrix, got none; CDAE "
                "has a vector for each user of the training and none for others: give −1 for a new "
                "user (a vector of zero), or use a VAE or DAE, which need histories only"
            )
        rows = np.asarray(users)
        known = self._known_users()
        if rows.dtype.kind not in "iu" or ((rows < NEW_USER) | (rows >= known)).any():
            raise ValueError(
                f"users: expected rows of the training matrix, from 0 to {known - 1}, or −1 for a "
                f"new user, got {rows.dtype} such as {rows[:3].tolist()}; CDAE cannot fold in "
                "users that it has not seen: use a VAE or DAE"
            )
        return super().recommend(user_items, n, users=rows, **options)

    def similar_items(self, items: Items, n: int = 10) -> Recommendations:
        """Items that go with each of these: the best for a new user who has that item only."""
        asked = item_positions(items, self.num_items, "items").numpy()
        alone = eye_array(self.num_items, format="csr")[asked]
        return self.recommend(alone, n, draws=0, users=np.full(len(asked), NEW_USER))

    def _known_users(self) -> int:
        _ = self.num_items  # fitted?
        assert isinstance(self._network, DenoisingNetwork)
        assert self._network.users is not None
        return len(self._network.users)

    def _scores_of_users(self, seen: csr_array, keys: Seeds, seeds: Seeds | None) -> Tensor:
        return self._scores_of(SparseRows.of(seen, torch.from_numpy(keys.astype(np.int64))), seeds)

    def _embed(self, histories: csr_array) -> Tensor:
        users = torch.full((histories.shape[0],), NEW_USER)
        return self._network.embed(SparseRows.of(histories, users))
