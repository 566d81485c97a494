"""Episodes: agents that act in worlds of their own, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

LONGEST = 10_000  # steps


@final
@dataclass(frozen=True)
class Episode:
    """What agents have seen and done.

    Attributes:
        observations: From the first to the last.  # (M, T + 1, D)
        actions: Between them.  # (M, T)
        returns: Sums of rewards.  # (M,)
    """

    observations: Tensor
    actions: Tensor
    returns: Tensor

    def transitions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Observations before, actions, and observations after: (M, T, …) each."""
        return self.observations[:, :-1], self.actions, self.observations[:, 1:]


def play(
    worlds: Sequence[Any],
    act: Callable[[Tensor], Tensor],
    seeds: Sequence[int],
    *,
    state_size: int = 4,
) -> Episode:
    """Let every agent act in its world until all are truncated or ended, which must be together.

    Args:
        worlds: Gymnasium environments with one bounded force as the action, one for each agent.
        act: From observations (M, 1, D) to actions (M, 1).
        seeds: What each world is reset with.
        state_size: D.
    """
    if not len(worlds) == len(seeds):
        raise ValueError(f"seeds: expected one a world, {len(worlds)}, got {len(seeds)}.")
    for world in worlds:
        _check(world, state_size)
    resets = [world.reset(seed=seed)[0] for world, seed in zip(worlds, seeds, strict=True)]
    observed, total = [_observed(resets)], torch.zeros(len(worlds), dtype=torch.float64)
    taken: list[Tensor] = []
    while True:
        actions = act(observed[-1][:, None])[:, 0]
        pairs = zip(worlds, actions.double().numpy(), strict=True)
        results = [world.step(np.array([action])) for world, action in pairs]
        rewards = torch.tensor([float(result[1]) for result in results], dtype=torch.float64)
        if not bool(rewards.isfinite().all()):
            raise ValueError(
                f"reward: expected finite numbers, got {rewards.tolist()} at step {len(taken) + 1}."
            )
        observed.append(_observed([result[0] for result in results]))
        taken.append(actions)
        total += rewards
        over = {bool(result[2] or result[3]) for result in results}
        if len(over) > 1:
            raise ValueError(
                f"worlds: expected episodes of one length, got some that ended after "
                f"{len(taken)} steps; let TimeLimit end them."
            )
        if len(taken) == LONGEST and over == {False}:
            raise ValueError(
                f"worlds: expected an end, got none after {LONGEST} steps; let TimeLimit end them."
            )
        if over == {True}:
            return Episode(torch.stack(observed, 1), torch.stack(taken, 1), total)


def _observed(observations: Sequence[Any]) -> Tensor:  # (M, D)
    found = torch.from_numpy(np.stack(observations)).float()
    if not bool(found.isfinite().all()):
        raise ValueError(f"observation: expected finite numbers, got {found.tolist()}.")
    return found


def _check(world: Any, state_size: int) -> None:
    """Complain about worlds that the agents cannot act in."""
    action, observation = world.action_space, world.observation_space
    low, high = getattr(action, "low", None), getattr(action, "high", None)
    if low is None or high is None or action.shape != (1,):
        raise TypeError(
            f"world: expected one continuous action, Box(−u, u, (1,)), got {action}; discrete "
            f"actions have no gradient to follow: use Q-learning there."
        )
    if observation.shape != (state_size,):
        raise TypeError(
            f"world: expected observations of {state_size} numbers, (x, v, ω, θ), got "
            f"{observation}; try dubio/CartPoleSwingUp-v0."
        )
