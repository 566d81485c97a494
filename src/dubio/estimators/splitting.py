"""Rows to train on, and rows to hold out."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FEWEST_HELD_OUT = 10  # rows; the loss on fewer tells one epoch from another by chance


@final
@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows as a network takes them.

    Attributes:
        x: Inputs in standard units, `(N, D)`.
        y: Targets in standard units, `(N, K)`, or class numbers `(N,)`.
        weight: How often each row counts, `(N,)`; None for once.
    """

    x: Tensor
    y: Tensor
    weight: Tensor | None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: NDArray[Any]) -> "LabelledRows":
        return LabelledRows(
            self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows]
        )

    @property
    def weights(self) -> Tensor:
        """The weight of every row, `(N,)`."""
        return torch.ones_like(self.x[:, 0]) if self.weight is None else self.weight

    @property
    def data(self) -> tuple[Tensor, ...]:
        """As `dubio.fit` takes them."""
        return (self.x, self.y) if self.weight is None else (self.x, self.y, self.weight)


def split(
    groups: NDArray[Any], fraction: float, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Choose at random which rows to train on and which to hold out, the same share of each group.

    If there would be fewer than `FEWEST_HELD_OUT`, none are held out. A group of fewer than
    1/fraction rows is trained on as a whole.

    Args:
        groups: The group of each row, `(N,)`: its class.
        fraction: The share of rows to hold out.
        rng: Source of the choice.

    Returns:
        The indices of either.
    """
    shuffled = rng.permutation(len(groups))
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]  # group by group
    sizes = np.unique(groups, return_counts=True)[1]
    rank = np.concatenate([np.arange(size) for size in sizes])
    tiny = 1e-9  # of rounding
    held_out = np.floor((rank + 1) * fraction + tiny) > np.floor(rank * fraction + tiny)
    if held_out.sum() < FEWEST_HELD_OUT:
        held_out[:] = False
    return order[~held_out], order[held_out]
