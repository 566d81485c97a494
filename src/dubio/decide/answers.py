"""Answered choices: the log of an agent."""

from typing import Any, final

import torch
from torch import Tensor

from dubio.decide.log import Log
from dubio.decide.pending import Chosen


@final
class Answers:
    """Choices and their rewards, in the order of the answers."""

    def __init__(self) -> None:
        self._parts: list[tuple[Chosen, Tensor]] = []

    def add(self, chosen: Chosen, rewards: Tensor) -> None:
        """Keep some more."""
        self._parts.append((chosen, rewards))

    def log(self) -> Log:
        """Return all of them."""
        if not self._parts:
            raise ValueError("log: expected answered choices, got none yet; call update first")
        chosen, rewards = self._joined()
        return Log(chosen.contexts, chosen.actions, rewards, chosen.probabilities, chosen.allowed)

    def state(self) -> dict[str, Any] | None:
        """Return what to save."""
        if not self._parts:
            return None
        chosen, rewards = self._joined()
        return {**vars(chosen), "rewards": rewards}

    def load(self, state: dict[str, Any] | None) -> None:
        """Go on from a saved state."""
        self._parts = []
        if state is not None:
            kept = dict(state)
            rewards = kept.pop("rewards")
            self._parts = [(Chosen(**kept), rewards)]

    def _joined(self) -> tuple[Chosen, Tensor]:
        """Return all as one; they stay so, for the next time."""
        if len(self._parts) > 1:
            columns = zip(*(vars(chosen).values() for chosen, _ in self._parts), strict=True)
            rewards = torch.cat([rewards for _, rewards in self._parts])
            self._parts = [(Chosen(*map(torch.cat, columns)), rewards)]
        return self._parts[0]
