"""The world of Gal & Ghahramani 2016, figure 5, as a Gymnasium environment."""

from collections.abc import Callable
from typing import Any, Literal, final, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from dubio_studies.worlds.discrete_actions import one_action
from dubio_studies.worlds.forager_layout import Layout
from dubio_studies.worlds.forager_pictures import Pixels, as_pixels, as_svg, as_text
from dubio_studies.worlds.forager_sight import EYES, FARTHEST
from dubio_studies.worlds.forager_world import WHEELS, Reward, Scene, Worlds

Observation = NDArray[np.float32]
RenderMode = Literal["rgb_array", "ansi", "svg"]
_PICTURES: dict[str, Callable[[Scene], Pixels | str]] = {
    "rgb_array": as_pixels,
    "ansi": as_text,
    "svg": as_svg,
}


def observation_space() -> spaces.Space[Observation]:
    """27 numbers between 0 and 1.2575."""
    return spaces.Box(0.0, np.float32(FARTHEST), (3 * EYES,), np.float32)


@final
class Forager(gymnasium.Env[Observation, np.int64]):
    """A forager with nine eyes among walls, apples (+5) and poison (−6).

    Registered as `dubio/Forager-v0`. The physics are those of Karpathy's demonstration (ConvNetJS,
    `rldemo.js`), in float64.

    Observation: wall, apple and poison for each eye; distance / 85 for what it sees, else 1. Items
    may be seen at more than 1. Actions turn two wheels: 0 forward, 1 and 2 curves, 3 and 4 turns.
    The reward counts what the eyes saw before the move: see `Reward`. The world never ends; use
    `max_episode_steps` of `gymnasium.make` to truncate it. `info` is a `Scene`: clock, pose, items
    and what the eyes see, in float64.

    Without a seed the first reset takes one from the operating system, which
    `env.unwrapped.np_random_seed` tells; later resets go on with the same random numbers.

    Args:
        reward: "gal", or "karpathy" with the open view doubled and capped at 1.
        render_mode: "rgb_array" (500 × 700 × 3), "ansi" or "svg".
    """

    metadata: dict[str, Any] = {"render_modes": list(get_args(RenderMode)), "render_fps": 30}  # noqa: RUF012

    def __init__(self, reward: Reward = "gal", render_mode: RenderMode | None = None) -> None:
        if render_mode is not None and render_mode not in _PICTURES:
            known = ", ".join(_PICTURES)
            raise ValueError(f"render_mode: expected {known} or None, got {render_mode!r}.")
        self.render_mode = render_mode
        self.observation_space = observation_space()
        self.action_space = spaces.Discrete(len(WHEELS))
        self._worlds = Worlds(1, reward)
        self._placed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new world, and what the eyes see in it.

        Args:
            seed: Of items that appear.
            options: `items`, a list of (x, y, type, age) with type 1 for an apple and 2 for poison;
                `pose`, (x, y, angle); `clock`. All of them are optional.
        """
        super().reset(seed=seed)
        self._worlds.place([Layout.from_options(options, self.np_random)])
        self._placed = True
        return self._seen()

    def step(self, action: int | np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """A tick: move, eat, items come and go, reward, look."""
        self._check_placed("step")
        chosen = np.array([one_action(action, len(WHEELS))])
        reward = float(self._worlds.tick(chosen, [self.np_random])[0])
        observation, info = self._seen()
        return observation, reward, False, False, info

    def render(self) -> Pixels | str:
        """The world as it is, in the mode that was asked for."""
        if self.render_mode is None:
            known = ", ".join(_PICTURES)
            raise ValueError(f"render: expected a render_mode, got None; make it with {known}.")
        self._check_placed("render")
        return _PICTURES[self.render_mode](self._worlds.scene(0))

    def _seen(self) -> tuple[Observation, dict[str, Any]]:
        numbers = self._worlds.sight.numbers()[0].astype(np.float32)
        return numbers, dict(vars(self._worlds.scene(0)))

    def _check_placed(self, what: str) -> None:
        if not self._placed:
            raise RuntimeError(f"{what}: expected a world, got none; call reset(seed=...) first.")
