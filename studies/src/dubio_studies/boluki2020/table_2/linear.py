"""Weighted matrix factorisation and SLIM, by the libraries of others, as recommenders of ours."""

import warnings
from importlib import import_module
from typing import Any, Self, final

import numpy as np
import torch
from scipy.sparse import csr_array, csr_matrix
from torch import Tensor

from dubio.recommend import Recommender


class NotInstalledError(ImportError):
    """A package that a row of the table needs."""


def package(name: str) -> Any:
    """Import a module of the extra ``recommend`` of the studies; what it warns of is its own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(name)
    except ImportError as error:
        what = name.partition(".")[0]
        raise NotInstalledError(
            f"{what}: expected this package, got none; pip install 'dubio-studies[recommend]'"
        ) from error


class Borrowed(Recommender):
    """A model of another library, which is fitted and asked, and not saved."""

    def _arguments(self) -> dict[str, Any]:
        return {}

    def _state(self) -> dict[str, Tensor]:
        raise NotImplementedError("save: expected a model of dubio; save it with its own library")

    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        raise NotImplementedError("load: expected a model of dubio; load it with its own library")


@final
class WMF(Borrowed):
    """Weighted matrix factorisation (Hu et al. 2008) by ``implicit``.

    Args:
        factors: Length of the vectors.
        regularization: λ.
        alpha: The weight of an interaction; that of all others is 1.
        iterations: Of alternating least squares.
        seed: Of the vectors to start from.
    """

    def __init__(
        self,
        factors: int = 200,
        regularization: float = 10.0,
        alpha: float = 10.0,
        iterations: int = 15,
        seed: int = 0,
    ) -> None:
        self._model = package("implicit.cpu.als").AlternatingLeastSquares(
            factors=factors,
            regularization=regularization,
            alpha=alpha,
            iterations=iterations,
            num_threads=1,
            random_state=seed,
        )

    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Alternate between users and items. The validation users are not needed."""
        given = self._training_data(user_items)
        self._model.fit(csr_matrix(given), show_progress=False)
        self._learnt(given.shape[1])
        return self

    def _scores(self, histories: csr_array, seeds: Any) -> Tensor:
        """Items against the vectors that fit these histories best."""
        users = self._model.recalculate_user(np.arange(histories.shape[0]), csr_matrix(histories))
        return torch.from_numpy(np.asarray(users @ self._model.item_factors.T))


@final
class SLIM(Borrowed):
    """A sparse linear model of items on items (Ning & Karypis 2011) by ``irspack``.

    Args:
        alpha: Of both penalties.
        l1_ratio: The share of that on absolute values.
    """

    def __init__(self, alpha: float = 0.05, l1_ratio: float = 0.01) -> None:
        self._recommender = package("irspack").SLIMRecommender
        self._settings_of_slim = {"alpha": alpha, "l1_ratio": l1_ratio}

    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Solve for the weights. The validation users are not needed."""
        given = self._training_data(user_items)
        self._model = self._recommender(
            csr_matrix(given, dtype=np.float64), **self._settings_of_slim, n_threads=1
        ).learn()
        self._learnt(given.shape[1])
        return self

    def _scores(self, histories: csr_array, seeds: Any) -> Tensor:
        found = self._model.get_score_cold_user(csr_matrix(histories, dtype=np.float64))
        return torch.from_numpy(np.asarray(found, np.float32))
