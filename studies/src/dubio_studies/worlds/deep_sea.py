"""Deep sea: one way in 2ᴺ leads to the treasure (Osband et al. 2019, bsuite)."""

from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from dubio_studies.worlds.discrete_actions import one_action

MOVE_COST = 0.01  # of an episode that always goes right
TREASURE = 1.0


@final
class DeepSea(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A diver sinks by one row a step through N × N cells, from the top left, to the left or right.

    Registered as `dubio/DeepSea-v0`. Observation: where the diver is, one-hot `(N, N)`; all zeros
    at the end. Which of the actions 0 and 1 goes right differs from cell to cell. A step to the
    right costs 0.01/N, and one to the right in the last column earns 1: only N steps to the right
    get there, for a return of 0.99. `info["right"]` tells whether a step went right.

    The sea is the same for any seed of `reset`; nothing in it is random.

    Args:
        size: N.
        mapping_seed: Of the meaning of actions, a fair coin for each cell; 42 as in bsuite.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, size: int = 10, mapping_seed: int = 42) -> None:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"size: expected a whole number from 1 on, got {size!r}.")
        self.size = size = int(size)
        self.right = np.random.RandomState(mapping_seed).binomial(1, 0.5, (size, size))
        """Which action goes right, `(N, N)`."""
        self.observation_space = spaces.Box(0.0, 1.0, (size, size), np.float32)
        self.action_space = spaces.Discrete(2)
        self._row = self._column = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Back to the top left; the options are empty."""
        super().reset(seed=seed)
        if options:
            raise ValueError(f"options: expected none, got {', '.join(map(str, options))}.")
        self._row = self._column = 0
        return self._seen(), {}

    def step(
        self, action: int | np.int64
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Sink by a row; after N steps the episode has ended."""
        if self._row < 0:
            raise RuntimeError("step: expected a diver, got none; call reset() first.")
        if self._row == self.size:
            raise RuntimeError("step: expected an episode, got its end; call reset() first.")
        right = one_action(action, 2) == self.right[self._row, self._column]
        reward = 0.0
        if right:
            found = self._column == self.size - 1
            reward = TREASURE * found - MOVE_COST / self.size
        self._column = int(np.clip(self._column + (1 if right else -1), 0, self.size - 1))
        self._row += 1
        return self._seen(), reward, self._row == self.size, False, {"right": bool(right)}

    def _seen(self) -> NDArray[np.float32]:
        cells = np.zeros((self.size, self.size), dtype=np.float32)
        if self._row < self.size:
            cells[self._row, self._column] = 1
        return cells
