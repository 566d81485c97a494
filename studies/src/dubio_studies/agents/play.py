"""Agents in worlds: the loop of acting, seeing and learning."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from dubio_studies.agents.q_learning import QLearners


class Tick(NamedTuple):
    """What happened to all agents at once."""

    x: NDArray[Any]  # (M, …), what was seen before
    rewards: NDArray[np.float64]  # (M,)
    over: NDArray[np.bool_]  # (M,), where an episode ended or was cut off


def play(
    agents: QLearners, envs: VectorEnv[Any, Any, Any], ticks: int, *, seed: int
) -> Iterator[Tick]:
    """Let agents act in worlds, one for each, and learn, a tick for each turn of your loop.

    After the end of an episode Gymnasium's worlds spend a tick on starting anew, in which no action
    counts: its rewards are zero, and nothing is remembered of it.

    Args:
        agents: Who acts.
        envs: Worlds with a finite number of actions.
        ticks: How many.
        seed: Of the first world; the next has the next number.
    """
    check_worlds(agents, envs)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(
            f"seed: expected a whole number, got {seed!r}; a run without one cannot be repeated."
        )
    return _ticks(agents, envs, ticks, int(seed))


def _ticks(
    agents: QLearners, envs: VectorEnv[Any, Any, Any], ticks: int, seed: int
) -> Iterator[Tick]:
    x, _ = envs.reset(seed=seed)
    over = np.zeros(len(agents), dtype=np.bool_)
    for _ in range(ticks):
        seen, actions = x, agents.act(x)
        x, rewards, ended, cut, _ = envs.step(actions)
        agents.observe(rewards, ended, x, ~over, cut)
        over = ended | cut
        yield Tick(seen, rewards, over)


def check_worlds(agents: QLearners, envs: VectorEnv[Any, Any, Any]) -> None:
    """Complain about worlds that Q-learning cannot act in."""
    if not isinstance(envs, VectorEnv):
        raise TypeError(
            f"envs: expected worlds side by side, as gymnasium.make_vec makes them, got "
            f"{type(envs).__name__}."
        )
    space = envs.single_action_space
    if not isinstance(space, spaces.Discrete):
        raise TypeError(
            f"envs: expected a finite number of actions, since a network has a value for each, got "
            f"{space}; choose some of these actions, or another algorithm."
        )
    if space.n != agents.actions or space.start != 0:
        raise ValueError(
            f"envs: expected actions from 0 to {agents.actions - 1}, got {space}; make networks "
            f"with {space.n} outputs."
        )
    if envs.num_envs != len(agents):
        raise ValueError(f"envs: expected {len(agents)}, one an agent, got {envs.num_envs}.")
    mode = envs.metadata.get("autoreset_mode")
    if mode != AutoresetMode.NEXT_STEP:
        raise ValueError(
            f"envs: expected worlds that start anew at the next step, as those of "
            f"gymnasium.make_vec do, got {mode}."
        )
