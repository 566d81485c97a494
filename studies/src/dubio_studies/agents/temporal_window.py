"""Worlds seen with a look back: what was seen and done at the last tick."""

from typing import Any, final

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray


@final
class TemporalWindow(VectorWrapper):
    """What is seen now, what was seen before, and what was done then: `temporal_window` = 1.

    As in ConvNetJS (`deepqlearn.js`), the action is one-hot, times the number of what is seen:
    27 · 2 + 5 numbers for a forager. At the start of an episode, before which there is nothing,
    what is seen stands twice and no action is marked.

    Args:
        envs: Worlds whose observations are rows of numbers, with a finite number of actions.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(envs)
        seen, actions = envs.single_observation_space, envs.single_action_space
        if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
            raise TypeError(f"envs: expected observations that are rows of numbers, got {seen}.")
        if not isinstance(actions, spaces.Discrete):
            raise TypeError(f"envs: expected a finite number of actions, got {actions}.")
        self._actions, self._scale = int(actions.n), float(seen.shape[0])
        marks = np.full(self._actions, self._scale, dtype=seen.dtype)
        low = np.concatenate([seen.low, seen.low, 0 * marks])
        high = np.concatenate([seen.high, seen.high, marks])
        self.single_observation_space = spaces.Box(low, high, dtype=seen.dtype.type)
        self.observation_space = batch_space(self.single_observation_space, envs.num_envs)
        self._before: NDArray[Any] = np.empty(0)  # (N, D)
        self._over: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)  # (N,)

    def reset(self, **options: Any) -> tuple[NDArray[Any], dict[str, Any]]:
        """New worlds."""
        seen, info = self.env.reset(**options)
        self._before, self._over = seen, np.zeros(len(seen), dtype=np.bool_)
        nothing = np.zeros((len(seen), self._actions), dtype=seen.dtype)
        return np.concatenate([seen, seen, nothing], 1), info

    def step(self, actions: NDArray[np.int64]) -> Any:
        """A tick of all worlds."""
        seen, rewards, ended, cut, info = self.env.step(actions)
        new = self._over[:, None]  # worlds that have started anew with this tick
        done = self._scale * np.eye(self._actions, dtype=seen.dtype)[actions] * ~new
        both = np.concatenate([seen, np.where(new, seen, self._before), done], 1)
        self._before, self._over = seen, ended | cut
        return both, rewards, ended, cut, info
