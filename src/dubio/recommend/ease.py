"""EASE: a linear model of items on items, in closed form (Steck 2019).

Each item is regressed on all others: minimise ‖X − X B‖² + λ‖B‖² with a diagonal of B that is 0.
With P = (XᵀX + λI)⁻¹ the minimum is B_ij = −P_ij / P_jj off the diagonal (Steck 2019, eq. 8).

There is one matrix of items × items. It is the Gram matrix, −P and B in turn, in float32: 4 I²
bytes, 1.6 GB for 20,000 items. It takes I³ multiplications and additions.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dubio.recommend.arguments import Check, number
from dubio.recommend.inverse import negative_inverse_
from dubio.recommend.keyed_noise import Seeds
from dubio.recommend.popular import popularity
from dubio.recommend.recommender import Recommender
from dubio.recommend.storage import take

Matrix: TypeAlias = npt.NDArray[np.float32]

_ROWS = 512  # of the matrix that are worked on at once


@final
class EASE(Recommender):
    """EASE (Steck 2019): linear scores x B of a history x.

    A strong baseline without noise: its spread is 0. A user without history gets popular items,
    scored by their share of training users.

    Args:
        weight_decay: λ. Large data need large values: 80 to 1000 are common.
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        "weight_decay": number(above=0, advice="500 is common")
    }

    def __init__(self, weight_decay: float = 500.0) -> None:
        self.weight_decay = weight_decay
        self._check()

    @property
    def weights(self) -> Tensor:
        """B, (I, I): column j holds the weights of all items in the score of item j."""
        items = self.num_items  # complains if nothing has been learnt
        return self._weights.view(items, items)

    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Solve for the weights. The validation users are not needed.

        Raises:
            MemoryError: If there is not enough memory for the matrix; nothing has been done.
        """
        given = self._training_data(user_items)
        items = given.shape[1]
        check_memory(items)
        matrix = _gram(given)
        matrix.flat[:: items + 1] += np.float32(self.weight_decay)
        try:
            negative_inverse_(torch.from_numpy(matrix))
        except ValueError as error:
            raise ValueError(
                "weight_decay: expected one that makes XᵀX + λI positive definite in float32, got "
                f"{self.weight_decay}; choose a larger one"
            ) from error
        _weigh(matrix)
        self._weights, self._shares = torch.from_numpy(matrix), popularity(given)
        self._learnt(items)
        return self

    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        scores = torch.from_numpy(histories @ self._weights.numpy())
        scores[torch.from_numpy(np.diff(histories.indptr) == 0)] = self._shares
        return scores

    def _state(self) -> dict[str, Tensor]:
        return {"weights": self._weights, "shares": self._shares}

    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        self._weights = take(tensors, "weights", (self._items, self._items))
        self._shares = take(tensors, "shares", (self._items,))


def check_memory(items: int, meminfo: Path = Path("/proc/meminfo")) -> None:
    """Raise a MemoryError if items × items numbers do not fit in free memory, if that is known.

    Args:
        items: Number of items.
        meminfo: Where Linux reports free memory; unknown elsewhere.
    """
    needed = 4 * items * (items + 8 * _ROWS)  # the matrix, and some rows as they are computed
    if not meminfo.is_file():
        return
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    free = 1024 * int(lines.get("MemAvailable", "0 kB").split()[0])
    if "MemAvailable" in lines and needed > free:
        raise MemoryError(
            f"EASE: expected {needed / 1e9:.1f} GB of free memory for {items} × {items} weights, "
            f"got {free / 1e9:.1f} GB; leave out rare items, or use a VAE, which is linear in items"
        )


def _gram(given: csr_array) -> Matrix:
    """Return XᵀX, dense."""
    items = given.shape[1]
    gram = np.empty((items, items), np.float32)
    transposed = given.T.tocsr()
    for rows in _blocks(items):
        (transposed[rows] @ given).toarray(out=gram[rows])
    return gram


def _weigh(inverse: Matrix) -> None:
    """Turn P, or −P, into B, in place."""
    inverse /= -inverse.diagonal().copy()
    np.fill_diagonal(inverse, 0)


def _blocks(items: int) -> Iterator[slice]:
    return (slice(start, min(start + _ROWS, items)) for start in range(0, items, _ROWS))
