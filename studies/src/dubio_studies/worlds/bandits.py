"""Bandits whose expected rewards are known, so that regret is exact."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from dubio.data import mushroom

EAT = 1
_MEAL, _POISON = 5.0, -35.0
_INNER, _FIRST, _JACKPOT, _DEVIATION = 1.0, 1.2, 50.0, 0.01


@dataclass(frozen=True, eq=False)
class Stream(ABC):
    """A stream of contexts that all agents meet alike.

    Attributes:
        contexts: `(T, D)` float32.
        means: The expected reward of every action, `(T, A)` float64.
    """

    contexts: Tensor
    means: Tensor

    def __len__(self) -> int:
        return len(self.contexts)

    @property
    def actions(self) -> int:
        """How many there are."""
        return self.means.shape[1]

    @property
    def regrets(self) -> Tensor:  # (T, A)
        """What every action is expected to lose against the best one."""
        return self.means.amax(1, keepdim=True) - self.means

    @abstractmethod
    def rewards(self, steps: slice, actions: Tensor) -> Tensor:
        """The rewards of actions `(…, B)` in these steps, with the same luck for all agents."""


@final
@dataclass(frozen=True, eq=False)
class Mushrooms(Stream):
    """To eat or not to eat (Blundell et al. 2015, section 5.3).

    An edible mushroom is worth 5. A poisonous one costs 35 or is worth 5, with equal odds. Not to
    eat is worth 0.

    Attributes:
        poisonous: `(T,)` bool.
        lucky: Whether poison would do no harm, `(T,)` bool.
    """

    poisonous: Tensor
    lucky: Tensor

    @staticmethod
    def drawn(steps: int, seed: int, *, drop_first: bool = False) -> "Mushrooms":
        """Mushrooms with replacement.

        Args:
            steps: T.
            seed: Of mushrooms and luck.
            drop_first: Without a column for the first category of each feature: 95 columns as
                those of Clark et al. 2022, instead of 117.
        """
        table = mushroom()
        codes = table.one_hot()
        if drop_first:
            sizes = [len(names) for names in table.categories]
            first = np.cumsum([0, *sizes[:-1]])
            codes = codes[:, np.setdiff1d(np.arange(sum(sizes)), first)]
        rng = np.random.default_rng(seed)
        chosen = torch.from_numpy(rng.integers(len(codes), size=steps))
        poisonous = table.poisonous[chosen]
        lucky = torch.from_numpy(rng.random(steps) < 0.5)
        eaten = torch.where(poisonous, (_MEAL + _POISON) / 2, _MEAL).double()
        means = torch.stack([torch.zeros(steps, dtype=torch.float64), eaten], 1)
        return Mushrooms(codes[chosen], means, poisonous, lucky)

    def rewards(self, steps: slice, actions: Tensor) -> Tensor:
        """5, −35 or 0."""
        hurt = self.poisonous[steps] & ~self.lucky[steps]
        return torch.where(actions == EAT, torch.where(hurt, _POISON, _MEAL), 0.0)


@final
@dataclass(frozen=True, eq=False)
class Wheel(Stream):
    """The wheel bandit (Riquelme et al. 2018, section 5.4).

    Contexts are uniform on the unit disc. The first of five actions is worth 1.2, the others 1.
    Outside of a radius δ one of these others is worth 50, a different one in each quadrant: the
    larger δ, the rarer it is to find that out. Rewards have a standard deviation of 0.01.

    Attributes:
        luck: What is added to the reward of every action, `(T, A)`.
    """

    luck: Tensor

    @staticmethod
    def drawn(steps: int, delta: float, seed: int) -> "Wheel":
        """Points on the disc.

        Args:
            steps: T.
            delta: δ, between 0 and 1.
            seed: Of points and luck.
        """
        if not 0 < delta < 1:
            raise ValueError(f"delta: expected a number between 0 and 1, got {delta}.")
        rng = np.random.default_rng(seed)
        radius, angle = np.sqrt(rng.random(steps)), 2 * np.pi * rng.random(steps)
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
        means = np.full((steps, 5), _INNER)
        means[:, 0] = _FIRST
        quadrant = 2 * (points[:, 0] < 0) + (points[:, 1] < 0)
        outside = np.flatnonzero(radius > delta)
        means[outside, 1 + quadrant[outside]] = _JACKPOT
        luck = _DEVIATION * rng.standard_normal((steps, 5))
        return Wheel(
            torch.from_numpy(points).float(), torch.from_numpy(means), torch.from_numpy(luck)
        )

    def rewards(self, steps: slice, actions: Tensor) -> Tensor:
        """The mean of the action with its luck."""
        found = (self.means + self.luck)[steps].expand(*actions.shape, -1)
        return found.gather(-1, actions[..., None]).squeeze(-1).float()
