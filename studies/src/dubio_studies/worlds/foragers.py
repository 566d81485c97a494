"""Many foragers at once, each in a world of its own, as a Gymnasium vector environment."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from dubio_studies.worlds.discrete_actions import many_actions
from dubio_studies.worlds.forager import observation_space
from dubio_studies.worlds.forager_layout import Layout
from dubio_studies.worlds.forager_world import WHEELS, Reward, Worlds

Observations = NDArray[np.float32]
Rewards = NDArray[np.float64]
Ends = NDArray[np.bool_]


@final
class Foragers(VectorEnv[Observations, NDArray[np.int64], Any]):
    """N worlds as those of `Forager`, computed together: equal to single ones bit for bit.

    `gymnasium.make_vec("dubio/Forager-v0", num_envs=64)` makes them. World i of `reset(seed=s)` is
    that of a `Forager` with seed s + i. Worlds never end. `worlds.scene(i)` shows one.

    Args:
        num_envs: N.
        reward: "gal" or "karpathy".
        render_mode: None; to draw a world use its scene and `forager_pictures`.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, reward: Reward = "gal", render_mode: None = None) -> None:
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise ValueError(f"num_envs: expected a whole number from 1 on, got {num_envs!r}.")
        if render_mode is not None:
            raise ValueError(
                f"render_mode: expected None, got {render_mode!r}; draw worlds.scene(i) instead."
            )
        self.num_envs = num_envs
        self.single_observation_space = observation_space()
        self.single_action_space = spaces.Discrete(len(WHEELS))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.worlds = Worlds(num_envs, reward)
        self.seeds: list[int] = []
        self._sources: list[np.random.Generator] = []

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """New worlds, and what the eyes see in them.

        Args:
            seed: Of the first world, the next has the next number; or one for each world. Without
                one the first reset takes `seeds` from the operating system, and later ones go on
                with the same random numbers.
            options: As those of `Forager.reset`, the same for all worlds.
        """
        sources, seeds = self._sources, self.seeds
        if seed is not None or not sources:
            made = [seeding.np_random(one) for one in self._each_seed(seed)]
            sources, seeds = [one for one, _ in made], [one for _, one in made]
        self.worlds.place([Layout.from_options(options, source) for source in sources])
        self._sources, self.seeds = sources, seeds
        return self._seen(), {}

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # as SyncVectorEnv
        """The seeds of all worlds: `reset(seed=…)` with them starts the same ones."""
        return tuple(self.seeds)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Observations, Rewards, Ends, Ends, dict[str, Any]]:
        """A tick of all worlds; actions, rewards and ends are `(N,)`."""
        if not self._sources:
            raise RuntimeError("step: expected worlds, got none; call reset(seed=...) first.")
        rewards = self.worlds.tick(many_actions(actions, self.num_envs, len(WHEELS)), self._sources)
        ends = np.zeros((2, self.num_envs), dtype=np.bool_)
        return self._seen(), rewards, ends[0], ends[1], {}

    def _seen(self) -> Observations:  # (N, 27)
        return self.worlds.sight.numbers().astype(np.float32)

    def _each_seed(self, seed: int | Sequence[int] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + world for world in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed: expected one or {self.num_envs} numbers, got {len(seed)}.")
        whole = [isinstance(one, int | np.integer) for one in seed]
        if not all(whole):
            raise TypeError(f"seed: expected whole numbers, got {list(seed)!r}.")
        return [int(one) for one in seed]
