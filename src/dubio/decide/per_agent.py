"""Arguments for many agents: one for each."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from dubio.decide.arguments import ArrayLike, all_finite, as_tensor

V = TypeVar("V")


def one_each(name: str, given: V | Sequence[V], count: int) -> list[V]:
    """Return a setting of each agent, from one for all or a sequence."""
    if isinstance(given, Tensor | np.ndarray):
        given = given.tolist()
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"{name}: expected one for each of {count} agents, got {len(given)}")
    return list(given)


def actions_of_agents(values: ArrayLike, agents: int, rows: int, actions: int) -> Tensor:  # (M, B)
    """Return the actions that each agent took."""
    taken = _of_agents("actions", values, agents, rows)
    if taken.is_floating_point() or taken.dtype == torch.bool:
        raise ValueError(f"actions: expected whole numbers, got {taken.dtype}")
    if not 0 <= int(taken.min()) <= int(taken.max()) < actions:
        raise ValueError(
            f"actions: expected numbers from 0 to {actions - 1}, got some from "
            f"{int(taken.min())} to {int(taken.max())}; number the actions from 0"
        )
    return taken


def rewards_of_agents(values: ArrayLike, agents: int, rows: int, like: Tensor) -> Tensor:  # (M, B)
    """Return the rewards that each agent got."""
    gains = _of_agents("rewards", values, agents, rows).to(like)
    if not all_finite(gains):
        raise ValueError(
            "rewards: expected finite numbers, got NaN or infinite ones; leave out contexts "
            "whose rewards are not known"
        )
    return gains


def _of_agents(name: str, values: ArrayLike, agents: int, rows: int) -> Tensor:
    found = as_tensor(name, values)
    if found.shape != (agents, rows):
        raise ValueError(
            f"{name}: expected shape ({agents}, {rows}), a row for each agent, got "
            f"{tuple(found.shape)}"
        )
    return found
