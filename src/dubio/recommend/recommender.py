"""What every recommender can do, and the little that a model must bring.

A model is a subclass of `Recommender` that implements

- ``fit(user_items, validation=None)``: read matrices with `histories`, and set ``self._items``;
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

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from dubio.recommend import storage
from dubio.recommend.best import best
from dubio.recommend.candidates import Candidates, Items, item_positions
from dubio.recommend.catalogue import Catalogue
from dubio.recommend.histories import histories
from dubio.recommend.keyed_noise import Seeds, draw_seeds, seed_of, user_keys
from dubio.recommend.over_draws import mean_and_spread
from dubio.recommend.recommendations import Recommendations

Explore: TypeAlias = Literal["mean", "thompson", "upper"]

AnyRecommender = TypeVar("AnyRecommender", bound="Recommender")

_EXPLORE = ("mean", "thompson", "upper")
_SCORES = 1 << 24  # of a batch of users: 64 MB
_USERS = 512


class Recommender(ABC):
    """Recommends items to users from their histories.

    Attributes:
        stochastic: Whether the scores have noise, so that draws differ.
        probabilities: Whether the scores of a user are probabilities of the next item, which sum
            to 1 over all items.
        knows_users: Whether it has learnt something about each user of the training, beside what is
            in histories.
        draws: How many draws `recommend` averages unless it is told otherwise.
        catalogue: External ids of users and items, if you have set it.
    """

    stochastic: bool = False
    probabilities: bool = False
    knows_users: bool = False
    draws: int = 20
    _items: int = 0
    _catalogue: Catalogue | None = None

    @abstractmethod
    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Learn from histories.

        Args:
            user_items: Users × items, a scipy sparse matrix; see `histories`.
            validation: Fold-in and held-out items of other users, for models that stop early.
        """

    @abstractmethod
    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        """Scores of all items in one draw, (B, I), or without noise if seeds is None."""

    @abstractmethod
    def _state(self) -> dict[str, Tensor]:
        """What has been learnt."""

    @abstractmethod
    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `_state` has given. ``self._items`` is set already."""

    def _embed(self, histories: csr_array) -> Tensor:
        """Embeddings of users, (B, D)."""
        raise TypeError(
            f"embed: expected a model with embeddings, got {type(self).__name__}, which has none; "
            "use a VAE"
        )

    def _settings(self) -> dict[str, Any]:
        """The arguments of __init__, as JSON can hold them: attributes of the same names."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        return cls(**settings)

    @property
    def num_items(self) -> int:
        """The number of items, known after `fit`."""
        if not self._items:
            raise RuntimeError(
                f"{type(self).__name__}: expected a fitted model, got one that has seen no data; "
                "call fit(user_items) first"
            )
        return self._items

    @property
    def catalogue(self) -> Catalogue | None:
        """External ids, as `from_frame` gives them; saved with the model."""
        return self._catalogue

    @catalogue.setter
    def catalogue(self, catalogue: Catalogue | None) -> None:
        _check_catalogue(catalogue, self._items)
        self._catalogue = catalogue

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
        users: Sequence[Any] | npt.NDArray[Any] | None = None,
    ) -> Recommendations:
        """The n best items for each user.

        Args:
            user_items: Histories, users × items, a scipy sparse matrix. The users may be new. An
                empty history is allowed.
            n: How many items.
            exclude_seen: Whether to leave out the items of the history.
            items: The only items to choose from, if not all.
            exclude: Items to leave out: positions for everybody, or a sparse matrix users × items.
            draws: Of the noise; 0 is one pass without noise. Default: ``draws`` of the model.
            explore: What to rank by. ``"mean"``: the mean score over draws. ``"upper"``: mean +
                ``width`` × spread; the scores that you get are this bound. ``"thompson"``: the
                scores of a single draw for each user (Thompson sampling), whatever ``draws``.
            width: Of the bound, in standard deviations.
            generator: An integer, with which users get the same noise whenever they come, until
                you change it (once a day, say); or a generator, which gives such an integer;
                None is 0. The noise of a user does not depend on other users.
            users: Ids of the users, integers or strings: each id has its own noise. Default: the
                numbers of the rows.

        Returns:
            Items, scores and spreads, (B, n). Equal scores are in the order of item numbers.
        """
        given = histories(user_items, self.num_items)
        users_here = given.shape[0]
        if n < 1:
            raise ValueError(f"n: expected at least 1, got {n}; 10 is common")
        count = self._check_draws(draws, explore)
        keys = _keys(users, users_here)
        candidates = Candidates(self.num_items, users_here, items, exclude)
        seed = seed_of(generator)
        _check_catalogue(self.catalogue, self.num_items)  # it may have been set before `fit`
        found = Recommendations.none(users_here, n, users, self.catalogue)
        for rows in self._batches(users_here):
            seen = given[rows]
            scores, spread = self._summary(seen, seed, keys[rows], count)
            if explore == "upper":
                scores.add_(spread, alpha=width)
            candidates.bar(scores, rows, seen if exclude_seen else None)
            values, ids = best(scores, n)
            found.enter(rows, ids, values, spread.gather(1, ids))
            if self.probabilities:
                found.total[rows] = scores.clamp_(min=0).sum(1).numpy()
        return found

    def similar_items(self, items: Items, n: int = 10) -> Recommendations:
        """Items that go with each of these: the best for a user whose history is that item only.

        Args:
            items: Positions of items.
            n: How many others for each. The item itself is not among them.
        """
        asked = item_positions(items, self.num_items, "items").numpy()
        return self.recommend(eye_array(self.num_items, format="csr")[asked], n, draws=0)

    def embed(self, user_items: Any) -> npt.NDArray[np.float32]:
        """Where users are in the space of the model, (B, D), without noise."""
        given = histories(user_items, self.num_items)
        with torch.no_grad():
            parts = [self._embed(given[rows]) for rows in self._batches(given.shape[0])]
            return np.asarray(torch.cat(parts or [self._embed(given)]).numpy())

    def save(self, path: str | Path) -> None:
        """Write the model to a file in one go: settings, what was learnt, and the catalogue.

        Args:
            path: A file; ``.safetensors`` is the usual end of its name.
        """
        saved = storage.Saved(
            kind=type(self).__name__,
            settings=self._settings(),
            items=self.num_items,
            tensors=self._state(),
            catalogue=self.catalogue,
        )
        storage.write(Path(path), saved)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` has written. No code in the file is run.

        Args:
            path: The file. ``Recommender.load`` reads any model, ``EASE.load`` an EASE only.
        """
        saved = storage.read(Path(path))
        kinds = {kind.__name__: kind for kind in _kinds(cls)}
        if saved.kind not in kinds:
            raise ValueError(
                f"{path}: expected one of {', '.join(sorted(kinds))}, got {saved.kind}; load it "
                f"with that class, or with Recommender.load after an import of it"
            )
        model = kinds[saved.kind]._from_settings(saved.settings)
        model._items = saved.items
        model._set_state(saved.tensors)
        model.catalogue = saved.catalogue
        return model

    def _check_draws(self, draws: int | None, explore: Explore) -> int:
        """How many draws to make; 0 for a pass without noise."""
        if explore not in _EXPLORE:
            raise ValueError(
                f"explore: expected one of {', '.join(_EXPLORE)}, got {explore!r}; 'mean' does "
                "not explore"
            )
        if draws is not None and draws < 0:
            raise ValueError(f"draws: expected 0 or more, got {draws}; 0 is a pass without noise")
        if not self.stochastic:
            return 0
        if explore == "thompson":
            return 1
        count = self.draws if draws is None else draws
        if explore == "upper" and count < 2:
            raise ValueError(
                f"draws: expected at least 2 for explore='upper', got {count}; the bound needs a "
                "spread"
            )
        return count

    def _summary(
        self, seen: csr_array, seed: int, keys: Seeds, count: int
    ) -> tuple[Tensor, Tensor]:
        """Mean and spread of the scores of a batch, (B, I)."""
        with torch.no_grad():
            if count == 0:
                scores = self._scores_of_users(seen, keys, None)
                spread = torch.nan if self.stochastic else 0.0
                return scores, torch.tensor(spread).expand_as(scores)
            return mean_and_spread(
                self._scores_of_users(seen, keys, draw_seeds(seed, keys, draw))
                for draw in range(count)
            )

    def _scores_of_users(self, seen: csr_array, keys: Seeds, seeds: Seeds | None) -> Tensor:
        """The scores of one draw; the keys say who the users are, for models that know them."""
        return self._scores(seen, seeds)

    def _batches(self, users: int) -> Iterator[slice]:
        size = max(1, min(_USERS, _SCORES // self.num_items))
        return (slice(start, min(start + size, users)) for start in range(0, users, size))


def _keys(users: Sequence[Any] | npt.NDArray[Any] | None, count: int) -> Seeds:
    if users is None:
        return user_keys(np.arange(count))
    if len(users) != count:
        raise ValueError(
            f"users: expected an id for each of the {count} rows, got {len(users)}; give them in "
            "the order of the rows"
        )
    return user_keys(users)


def _check_catalogue(catalogue: Catalogue | None, items: int) -> None:
    if catalogue is not None and items and len(catalogue.items) != items:
        raise ValueError(
            f"catalogue: expected ids of the {items} items of the model, got "
            f"{len(catalogue.items)}; set that of the training data"
        )


def _kinds(kind: type[AnyRecommender]) -> Iterator[type[AnyRecommender]]:
    """A class and all that are derived from it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from _kinds(derived)
