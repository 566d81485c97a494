"""Agents that are saved to a folder, at once or call by call, and go on from there."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from torch import nn

from dubio.decide import folder as folders
from dubio.decide.folder import KeptFolder, State
from dubio.decide.journal import Event
from dubio.decide.learner import OptimizerFactory, Schedule
from dubio.likelihoods import Likelihood
from dubio.training.errors import CheckpointError


class KeptAgent(ABC):
    """An agent with a state that can be saved, and calls that can be made again."""

    def __init__(self) -> None:
        self._kept: KeptFolder | None = None
        self._home: Path | None = None

    def save(self, folder: str | Path) -> None:
        """Save everything to a folder, in one go: a crash leaves the former state or the new one.

        Networks, likelihood, optimiser and schedule are pickled with their state. What cannot be
        pickled is to be passed to `load`.
        """
        place = Path(folder)
        if self._kept is not None and self._home == place.resolve():
            self._kept.snapshot(self._state())
        else:
            folders.write(place, self._state())

    def keep_in(self, folder: str | Path, save_every: float = 60.0) -> Self:
        """From now on, be safe in a folder: nothing is lost that a call has returned.

        Every call that changes the agent is written to a journal before it returns. `load` takes
        the last snapshot and makes these calls again, so that the agent goes on to the same choices
        and weights, also if the process was killed at any moment. After a power cut the last calls
        may be missing.

        Args:
            folder: For this agent alone. If an agent was saved there, it must be this one.
            save_every: Seconds between snapshots.
        """
        place = Path(folder)
        if folders.holds_agent(place) and self._home != place.resolve():
            raise CheckpointError(
                f"folder: expected an empty one, got {folder} with another agent in it; go on with "
                "that one by Bandit.load(folder), or pass another folder"
            )
        self.close()
        self._kept = KeptFolder(place, self._state(), save_every)
        weakref.finalize(self, self._kept.close)
        self._home = place.resolve()
        return self

    def close(self) -> None:
        """End `keep_in`, with a last snapshot."""
        if self._kept is not None:
            self._kept.snapshot(self._state())
            self._kept.close()
            self._kept = None

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        net: nn.Module | Sequence[nn.Module] | None = None,
        likelihood: Likelihood | None = None,
        optimizer: OptimizerFactory | None = None,
        schedule: Schedule | None = None,
    ) -> Self:
        """The agent of a folder, which goes on bit for bit on the same machine.

        Pickles run code: load only what you trust. A part that is passed is not unpickled.

        Args:
            folder: That of `save` or `keep_in`.
            net: The network, if it could not be pickled; it gets the saved weights.
            likelihood: The likelihood, likewise.
            optimizer: The function that makes the optimiser, likewise.
            schedule: The schedule, likewise.
        """
        place = Path(folder)
        state, events = folders.read(place)
        given = {"net": net, "likelihood": likelihood, "optimizer": optimizer, "schedule": schedule}
        parts: dict[str, Any] = {
            name: folders.unpickled(name, state["parts"][name]) if part is None else part
            for name, part in given.items()
        }
        agent = cls._restored(parts, state)
        for event in events:
            agent._again(event)
        agent._home = place.resolve()
        return agent

    @contextmanager
    def _keeping(self, event: Event) -> Iterator[None]:
        """Keep the event that the block makes happen; if it fails, the state that it leaves."""
        try:
            yield
        except BaseException:
            if self._kept is not None:
                self._kept.snapshot(self._state())
            raise
        self._keep(event)

    def _keep(self, event: Event) -> None:
        """Keep an event that has happened."""
        if self._kept is not None:
            self._kept.append(event, self._state)

    @abstractmethod
    def _state(self) -> State:
        """Everything, to save."""

    @classmethod
    @abstractmethod
    def _restored(cls, parts: dict[str, Any], state: State) -> Self:
        """The agent of a state, around networks, likelihood, optimiser and schedule."""

    @abstractmethod
    def _again(self, event: Event) -> None:
        """Make a call of the journal once more."""
