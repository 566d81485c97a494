"""PILCO's cart-pole: swing a hanging pole up and hold it there.

Deisenroth & Rasmussen 2011; constants and equations as in the authors' `scenarios/cartPole`. Gal et
al. 2016 and 2017 (figure 9) learn it within 25 steps.
"""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CART_MASS = POLE_MASS = 0.5  # kg
FRICTION = 0.1  # N s/m
GRAVITY = 9.82  # m/s²
PERIOD = 0.1  # s for which a force is held
MAX_FORCE = 10.0  # N
COST_WIDTH = 0.25  # m
START_DEVIATION = 0.1
SUBSTEPS = 50
"""Of Runge-Kutta in a period: an error of 1e-8 in a step (1e-7 at 30 rad/s), where one substep has
0.04. A swing-up is unstable: 25 steps make 1e-3 of it, and 4e-2 with 20 substeps."""


def derivative(state: Floats, force: float | Floats, length: float) -> Floats:
    """The time derivative of states (x, v, ω, θ), `(..., 4)`; θ = 0 hangs, θ = π is up.

    With masses m of the pole and M of the cart, friction b, s = sin θ, c = cos θ and force f:
    dv/dt = (2mlω²s + 3mgsc + 4f − 4bv) / (4(M + m) − 3mc²),
    dω/dt = (−3mlω²sc − 6(M + m)gs − 6(f − bv)c) / (4l(M + m) − 3mlc²).
    """
    speed, spin, angle = state[..., 1], state[..., 2], state[..., 3]
    sine, cosine = np.sin(angle), np.cos(angle)
    mass, pull = CART_MASS + POLE_MASS, force - FRICTION * speed
    swing = POLE_MASS * length * spin**2 * sine
    slack = 4 * mass - 3 * POLE_MASS * cosine**2
    forward = (2 * swing + 3 * POLE_MASS * GRAVITY * sine * cosine + 4 * pull) / slack
    turn = (-3 * swing * cosine - 6 * mass * GRAVITY * sine - 6 * pull * cosine) / (length * slack)
    slope = np.empty(state.shape)
    slope[..., 0], slope[..., 1], slope[..., 2], slope[..., 3] = speed, forward, turn, spin
    return slope


def transition(
    state: Floats, force: float | Floats, length: float, substeps: int = SUBSTEPS
) -> Floats:
    """States `(..., 4)` after a period with a force `(...)`, by Runge-Kutta of order four."""
    step = PERIOD / substeps
    for _ in range(substeps):
        first = derivative(state, force, length)
        second = derivative(state + step / 2 * first, force, length)
        third = derivative(state + step / 2 * second, force, length)
        fourth = derivative(state + step * third, force, length)
        state = state + step / 6 * (first + 2 * second + 2 * third + fourth)
    return state


def cost(state: Floats, length: float) -> Floats:
    """1 − exp(−d² / (2·0.25²)), with d from the tip of the pole to where it is when it stands."""
    position, angle = state[..., 0], state[..., 3]
    across, above = position + length * np.sin(angle), length * np.cos(angle) + length
    saturating: Floats = -np.expm1(-(across**2 + above**2) / (2 * COST_WIDTH**2))
    return saturating


@final
class CartPoleSwingUp(gymnasium.Env[Floats, Floats]):
    """A pole on a cart that hangs at first, and can be pushed by up to 10 N.

    Registered as `dubio/CartPoleSwingUp-v0`, with 25 steps of 0.1 s. Observation: (x, v, ω, θ) with
    Gaussian noise, float64. Action: the force, `(1,)`. Reward: 1 − cost of the state after the step
    without noise, which `info["state"]` has; so the return is at most 25, and the best plans that
    are known from rest reach 17.3. It never ends; 25 steps truncate it.

    Without a seed the first reset takes one from the operating system, which
    `env.unwrapped.np_random_seed` tells.

    Args:
        length: Of the pole, in m.
        noise: Standard deviation of what is observed.
        start_deviation: Of all four numbers around (0, 0, 0, 0) at the start.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, length: float = 0.5, noise: float = 0.01, start_deviation: float = START_DEVIATION
    ) -> None:
        self.length = _number("length", length)
        if self.length == 0:
            raise ValueError("length: expected more than 0, got 0.")
        self.noise = _number("noise", noise)
        self.start_deviation = _number("start_deviation", start_deviation)
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
        self.action_space = spaces.Box(-MAX_FORCE, MAX_FORCE, (1,), np.float64)
        self._state: Floats | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start near rest, or at `options["state"]`, (x, v, ω, θ)."""
        super().reset(seed=seed)
        state = _state(options)
        if state is None:
            state = self.start_deviation * self.np_random.standard_normal(4)
        self._state = state
        return self._observed(state)

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Hold a force for 0.1 s."""
        if self._state is None:
            raise RuntimeError("step: expected a state, got none; call reset(seed=...) first.")
        self._state = transition(self._state, _force(action), self.length)
        if not np.isfinite(self._state).all():
            raise FloatingPointError(
                f"step: expected a finite state, got {self._state}; start more slowly."
            )
        observation, info = self._observed(self._state)
        reward = 1.0 - float(cost(self._state, self.length))
        return observation, reward, False, False, info

    def _observed(self, state: Floats) -> tuple[Floats, dict[str, Any]]:
        noise = self.noise * self.np_random.standard_normal(4)
        return state + noise, {"state": state.copy(), "cost": float(cost(state, self.length))}


def _force(action: Any) -> float:
    array = np.asarray(action)
    if array.shape != (1,) or array.dtype.kind not in "iuf":
        raise TypeError(
            f"action: expected one force as an array of shape (1,), got shape {array.shape} of "
            f"{array.dtype}."
        )
    force = float(array[0])
    if not -MAX_FORCE <= force <= MAX_FORCE:
        raise ValueError(f"action: expected −10 to 10 N, got {force}; clip it first.")
    return force


def _state(options: Mapping[str, Any] | None) -> Floats | None:
    if not options:
        return None
    if set(options) != {"state"}:
        raise ValueError(f"options: expected state only, got {', '.join(map(str, options))}.")
    given = options["state"]
    if not isinstance(given, Sequence | np.ndarray) or np.shape(given) != (4,):
        raise ValueError(f"options, state: expected (x, v, ω, θ), got {given!r}.")
    state = np.array(given, dtype=np.float64)
    if not np.isfinite(state).all():
        raise ValueError(f"options, state: expected finite numbers, got {given!r}.")
    return state


def _number(name: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{name}: expected a number, got {number!r}.")
    if not 0 <= float(number) < np.inf:
        raise ValueError(f"{name}: expected a finite number from 0 on, got {number!r}.")
    return float(number)
