"""The interface of every recommender, and what a model must implement.

A model is a subclass of `Recommender` that implements

- ``fit(user_items, validation=None)``: read the matrix by ``self._training_data(user_items)``, and
  when all is learnt call ``self._learnt(items)``;
- ``_scores(histories, seeds)``: the scores of all items for a batch of users, (B, I), in one draw
  of the model's noise. ``seeds`` holds a seed for each user *of this draw*: all noise must be a
  function of the user's seed (`keyed_noise`), so that it does not depend on who else is in the
  batch. ``seeds=None`` asks for the prediction without noise. Scores are on the scale on which
  they are averaged over draws: probabilities, not their logarithms. The tensor is the caller's,
  who writes into it. Without noise in the model, leave ``stochastic`` false and ignore ``seeds``;
- ``_state()`` and ``_set_state(tensors)``: what `save` writes and `load` reads;
- ``_embed(histories)``, if it has embeddings of users.

An empty history is a row without entries. It has scores like any other, never NaN.

Everything else is here: users go by batches, the mean and the spread over draws are added up in
place, and only the n best items of a user are kept. So memory is that of a batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from dubio.recommend.arguments import number, whole
from dubio.recommend.asked import Asked, Explore, RowNumbers, Users, check_draws, check_users
from dubio.recommend.best import best
from dubio.recommend.candidates import Candidates, Items, item_positions, items_by_user
from dubio.recommend.histories import histories
from dubio.recommend.keyed_noise import Seeds, draw_seeds
from dubio.recommend.model import Model, check_catalogue
from dubio.recommend.over_draws import mean_and_spread
from dubio.recommend.recommendations import Recommendations

_SCORES = 1 << 24  # of a batch of users: 64 MB
_USERS = 512


class Recommender(Model, ABC):
    """A model that recommends items to users from their histories.

    Attributes:
        stochastic: Whether the scores have noise, so that draws differ.
        probabilities: Whether the scores of a user are probabilities of the next item, which sum to
            1 over all items.
        knows_users: Whether it has learned something about each training user beyond the histories.
    """

    stochastic: bool = False
    probabilities: bool = False
    knows_users: bool = False

    @abstractmethod
    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Learn from histories.

        Args:
            user_items: Users × items, a scipy sparse matrix; see `histories`.
            validation: Fold-in and held-out items of other users, for models that stop early.
        """

    @abstractmethod
    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        """Return scores of all items in one draw, (B, I), or without noise if seeds is None."""

    def _embed(self, histories: csr_array) -> Tensor:
        """Embeddings of users, (B, D)."""
        raise TypeError(
            f"embed: expected a model with embeddings, got {type(self).__name__}, which has none; "
            "use a VAE"
        )

    def recommend(
        self,
        user_items: Any,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        items: Items | None = None,
        exclude: Any = None,
        draws: int | None = None,
        explore: Explore = "mean",
        width: float = 1.0,
        generator: torch.Generator | int | None = None,
        users: Users | None = None,
    ) -> Recommendations:
        """Return the n best items for each user.

        Args:
            user_items: Histories, users × items, a scipy sparse matrix. Users may be new, and
                histories may be empty.
            n: Number of items.
            exclude_seen: Whether to exclude the items of the history.
            items: The only items to choose from, if not all: positions, or names if the model has a
                catalogue in which they are strings.
            exclude: Items to exclude: positions or names for everybody, or a sparse matrix users ×
                items.
            draws: Number of draws to average; 0 is one pass without noise. By default ``draws`` of
                the model.
            explore: What to rank by. ``"mean"``: the mean score over draws. ``"upper"``: mean +
                ``width`` × spread, which is then returned as score. ``"thompson"``: the scores of a
                single draw for each user (Thompson sampling), whatever ``draws``.
            width: Width of the upper bound, in standard deviations.
            generator: An integer that fixes the noise of every user until you change it (once a
                day, say); or a generator, which provides such an integer. None is 0: two calls
                without it have the same noise. The noise of a user does not depend on other users.
            users: Ids of the users: numbers, strings, bytes or tuples of these. Each id has its own
                noise. By default row numbers.

        Returns:
            Items, scores and spreads, (B, n). Equal scores are in the order of item numbers.
        """
        given = histories(user_items, self.num_items)
        count = given.shape[0]
        n = whole(1, advice="10 is common")("n", n)
        width = number(advice="1 is one standard deviation")("width", width)
        asked = self._ask(count, users, draws, generator, explore)
        candidates = Candidates(self.num_items, count, items, exclude, self._item_names)
        check_catalogue(self.catalogue, self.num_items)  # it may have been set before `fit`
        found = Recommendations.none(count, n, self._names(users), self.catalogue)
        for rows in self._batches(count):
            seen = given[rows]
            scores, spread = self._summary(seen, asked.part(rows))
            if explore == "upper":
                scores.add_(spread, alpha=width)
            candidates.bar(scores, rows, seen if exclude_seen else None)
            values, ids = best(scores, n)
            found.enter(rows, ids, values, spread.gather(1, ids))
            if self.probabilities and explore != "upper":
                found.total[rows] = scores.clamp_(min=0).sum(1).numpy()
        return found

    def score(
        self,
        user_items: Any,
        items: Any,
        *,
        draws: int | None = None,
        generator: torch.Generator | int | None = None,
        users: Users | None = None,
    ) -> Recommendations:
        """Return the scores of given items, in the given order.

        Args:
            user_items: Histories, users × items, a scipy sparse matrix.
            items: Positions or names of items: the same for everybody, (m,), or by user, (B, m).
            draws: As in `recommend`.
            generator: As in `recommend`.
            users: As in `recommend`.

        Returns:
            Items, scores and spreads, (B, m), also of items in the history.
        """
        given = histories(user_items, self.num_items)
        wanted = items_by_user(items, given.shape, self._item_names)  # (B, m)
        asked = self._ask(given.shape[0], users, draws, generator)
        count, n = wanted.shape
        found = Recommendations.none(count, n, self._names(users), self.catalogue)
        for rows in self._batches(count):
            scores, spread = self._summary(given[rows], asked.part(rows))
            ids = wanted[rows]
            found.enter(rows, ids, scores.gather(1, ids), spread.gather(1, ids))
            if self.probabilities:
                found.total[rows] = scores.sum(1).numpy()
        return found

    def similar_items(self, items: Items, n: int = 10) -> Recommendations:
        """Return the items that go best with each of these: those for a user with only that item.

        Args:
            items: Positions or names of items.
            n: Number of items for each. The item itself is excluded.
        """
        asked = item_positions(items, self.num_items, "items", self._item_names).numpy()
        alone = eye_array(self.num_items, format="csr")[asked]
        users = -1 - np.arange(len(asked)) if self.knows_users else None
        return self.recommend(alone, n, draws=0, users=users)

    def embed(self, user_items: Any, *, users: Users | None = None) -> npt.NDArray[np.float32]:
        """Return the latent representation of users, (B, D), without noise.

        Args:
            user_items: Histories, users × items, a scipy sparse matrix.
            users: Who they are, for models that know their users (`CDAE`); as in `recommend`.
        """
        given = histories(user_items, self.num_items)
        asked = self._ask(given.shape[0], users, 0)
        with torch.no_grad():
            parts = [
                self._embed_of_users(given[rows], asked.part(rows).rows)
                for rows in self._batches(given.shape[0])
            ]
            return np.asarray(torch.cat(parts or [self._embed_of_users(given, asked.rows)]).numpy())

    def _ask(
        self,
        count: int,
        users: Users | None,
        draws: int | None,
        generator: torch.Generator | int | None = None,
        explore: Explore = "mean",
    ) -> Asked:
        """Who is asked about, and over which draws; checked."""
        made = check_draws(self.draws if draws is None else draws, explore, self.stochastic)
        rows = self._training_rows(users, count, explore)
        return Asked.of(check_users(users, count), rows, generator, made)

    def _training_rows(
        self, users: Users | None, count: int, explore: Explore
    ) -> RowNumbers | None:
        """Return the training row of each user, negative for new ones, if the model needs it."""
        return None

    def _names(self, users: Users | None) -> Users | None:
        """Return the names of the users."""
        return None if users is None else check_users(users, len(users))

    def _summary(self, seen: csr_array, asked: Asked) -> tuple[Tensor, Tensor]:
        """Mean and spread of the scores of a batch, (B, I)."""
        with torch.no_grad():
            if asked.draws == 0:
                scores = self._scores_of_users(seen, asked.rows, None)
                spread = torch.nan if self.stochastic else 0.0
                return scores, torch.tensor(spread, dtype=scores.dtype).expand_as(scores)
            return mean_and_spread(
                self._scores_of_users(seen, asked.rows, draw_seeds(asked.seed, asked.keys, draw))
                for draw in range(asked.draws)
            )

    def _scores_of_users(
        self, seen: csr_array, rows: RowNumbers | None, seeds: Seeds | None
    ) -> Tensor:
        """Return the scores of one draw, for models that know their users by their rows."""
        return self._scores(seen, seeds)

    def _embed_of_users(self, seen: csr_array, rows: RowNumbers | None) -> Tensor:
        return self._embed(seen)

    def _batches(self, users: int) -> Iterator[slice]:
        size = max(1, min(_USERS, _SCORES // self.num_items))
        return (slice(start, min(start + size, users)) for start in range(0, users, size))
