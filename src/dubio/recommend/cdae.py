"""Collaborative denoising autoencoders: a vector for each user."""

from typing import final

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dubio.recommend.asked import Explore, RowNumbers, Users, check_users
from dubio.recommend.denoising import DenoisingNetwork
from dubio.recommend.denoising_autoencoder import DenoisingAutoencoder
from dubio.recommend.keyed_noise import Seeds
from dubio.recommend.masks_by_name import make_mask
from dubio.recommend.sparse import SparseRows


@final
class CDAE(DenoisingAutoencoder):
    """CDAE: σ(W′σ(Wx̃ + v_u + b) + b′), with a vector v_u for each user (Wu et al. 2016).

    It is trained with a logistic likelihood of every item. Because of the vectors, `recommend` must
    know the users: ``users`` are their rows in the training matrix. Negative numbers are new users,
    whose vector is zero, which is a guess. Give each its own number, −1, −2, …: users with the same
    number have the same noise.

    Args:
        hidden: Units of the hidden layer.
        mask: A class of `dubio.masks`, called as ``mask(items, drop=drop)``, so that every item has
            its own rate; None for no mask.
        drop: The dropout rate, or the initial one if it is learned.
        estimator: Gradient estimator for the rates of `masks.LearnableBernoulli`, as in `VAE`.
        weight_decay: λ of the penalty ½λ‖W‖².
    """

    probabilities = False
    knows_users = True

    def _build(self, items: int, users: int) -> DenoisingNetwork:
        return DenoisingNetwork(
            items,
            self.hidden,
            make_mask(self.mask, items, self.drop),
            estimator=self.estimator,
            likelihood="logistic",
            users=users,
        )

    def _training_rows(self, users: Users | None, count: int, explore: Explore) -> RowNumbers:
        if users is None:
            raise ValueError(
                "users: expected the rows of these users in the training matrix, got none; CDAE "
                "has a vector for each user of the training and none for others: give −1 for a new "
                "user (a vector of zero), or use a VAE or DAE, which need histories only"
            )
        rows = np.asarray(check_users(users, count))
        known = self._known_users()
        if rows.size and (rows.dtype.kind not in "iu" or (rows >= known).any()):
            raise ValueError(
                f"users: expected rows of the training matrix, from 0 to {known - 1}, or negative "
                f"numbers for new users, got {rows.dtype} such as {rows[:3].tolist()}; CDAE cannot "
                "fold in users that it has not seen: use a VAE or DAE"
            )
        new = rows[rows < 0]
        if explore == "thompson" and len(np.unique(new)) < len(new):
            raise ValueError(
                f"users: expected a negative number of its own for each new user who explores, got "
                f"{len(new)} users with {len(np.unique(new))} numbers, who would share their "
                "noise; give −1, −2, …"
            )
        return rows.astype(np.int64)

    def _names(self, users: Users | None) -> Users | None:
        """Return names of the catalogue for known users, and numbers for new ones."""
        known = 0 if self.catalogue is None else len(self.catalogue.users)
        if users is None or self.catalogue is None or known != self._known_users():
            return super()._names(users)
        names = self.catalogue.users.ids(np.maximum(users, -1))
        return [row if name is None else name for row, name in zip(users, names, strict=True)]

    def _known_users(self) -> int:
        assert isinstance(self._network, DenoisingNetwork)
        assert self._network.users is not None
        return len(self._network.users)

    def _scores_of_users(
        self, seen: csr_array, rows: RowNumbers | None, seeds: Seeds | None
    ) -> Tensor:
        return self._scores_of(_with_users(seen, rows), seeds)

    def _embed_of_users(self, seen: csr_array, rows: RowNumbers | None) -> Tensor:
        return self._network.embed(_with_users(seen, rows))


def _with_users(seen: csr_array, rows: RowNumbers | None) -> SparseRows:
    assert rows is not None
    return SparseRows.of(seen, torch.from_numpy(rows))
