"""The users of a request, and its draws of noise."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch

from dubio.recommend.arguments import one_of, whole
from dubio.recommend.keyed_noise import Seeds, seed_of, user_keys

Explore: TypeAlias = Literal["mean", "thompson", "upper"]
Users: TypeAlias = Sequence[Any] | npt.NDArray[Any]
RowNumbers: TypeAlias = npt.NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """Some users and the draws for them.

    Attributes:
        keys: Of the noise of each user.  # (B,)
        rows: Of each user in the training, negative for new ones, if the model knows its users.
        seed: Of all noise.
        draws: How many; 0 for a pass without noise.
    """

    keys: Seeds
    rows: RowNumbers | None
    seed: int
    draws: int

    @classmethod
    def of(
        cls,
        users: Users,
        rows: RowNumbers | None,
        generator: torch.Generator | int | None,
        draws: int,
    ) -> "Asked":
        """Return the users of these ids."""
        return cls(user_keys(users), rows, seed_of(generator), draws)

    def part(self, some: slice) -> "Asked":
        """Return some of the users."""
        rows = None if self.rows is None else self.rows[some]
        return Asked(self.keys[some], rows, self.seed, self.draws)


def check_users(users: Users | None, count: int) -> Users:
    """Return ids of users, one for each row; by default the numbers of the rows."""
    if users is None:
        return np.arange(count)
    wrong = isinstance(users, str | bytes | Set | Mapping) or not hasattr(users, "__len__")
    if wrong or getattr(users, "ndim", 1) != 1:
        shape = f" of shape {users.shape}" if isinstance(users, np.ndarray) else ""
        raise TypeError(
            f"users: expected a list or an array of one dimension with an id for each row, got "
            f"{type(users).__name__}{shape}; give them in the order of the rows"
        )
    if len(users) != count:
        raise ValueError(
            f"users: expected an id for each of the {count} rows, got {len(users)}; give them in "
            "the order of the rows"
        )
    return users if isinstance(users, np.ndarray) else list(users)


def check_draws(draws: int, explore: Explore, stochastic: bool) -> int:
    """Return how many draws to make; 0 for a pass without noise."""
    one_of("mean", "thompson", "upper")("explore", explore)
    count: int = whole(0, advice="0 is a pass without noise")("draws", draws)
    if not stochastic:
        return 0
    if explore == "thompson":
        return 1
    if explore == "upper" and count < 2:
        raise ValueError(
            f"draws: expected at least 2 for explore='upper', got {count}; the bound needs a spread"
        )
    return count
