"""Agents that are saved to a folder, once or at every call, and resume from it."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeAlias

from torch import nn

from dubio.decide import folder as folders
from dubio.decide.folder import Fingerprint, KeptFolder, State
from dubio.decide.journal import Event
from dubio.decide.learner import OptimizerFactory, RateSchedule
from dubio.decide.turns import Turn
from dubio.likelihoods import Likelihood
from dubio.training.errors import CheckpointError

WeightVersions: TypeAlias = tuple[tuple[int, int], ...]


class KeptAgent(ABC):
    """An agent with a state that can be saved, and calls that can be made again."""

    def __init__(self) -> None:
        self._turn = Turn()
        self._kept: KeptFolder | None = None
        self._known: WeightVersions = ()  # as the last kept call left them
        self._left: tuple[Path, Fingerprint] | None = None  # a folder, as this agent left it

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy, which is not kept in the folder of the original."""
        return {**self.__dict__, "_kept": None, "_left": None}

    def save(self, folder: str | Path) -> None:
        """Save everything to a folder, in one go: a crash leaves the former state or the new one.

        Networks, likelihood, optimiser and schedule are pickled with their state. What cannot be
        pickled is to be passed to `load`.
        """
        place = Path(folder)
        with self._turn:
            if self._kept is not None and self._kept.folder.resolve() == place.resolve():
                self._snapshot(self._kept)
                return
            folders.write_alone(place, self._state())
            self._leave(place)

    def keep_in(self, folder: str | Path, save_every: float = 60.0) -> Self:
        """Save every call to a folder from now on, so that nothing returned is ever lost.

        Every call that changes the agent is written to a journal before it returns. `load` takes
        the last snapshot and makes these calls again, so that the agent goes on to the same choices
        and weights, also if the process was killed at any moment. After a power cut the last calls
        may be missing.

        Args:
            folder: For this agent alone. If an agent was saved there, it must be this one.
            save_every: Seconds between snapshots.
        """
        place = Path(folder)
        with self._turn:
            self.close()
            now = place.resolve(), folders.fingerprint(place)
            if folders.holds_agent(place) and self._left != now:
                raise CheckpointError(
                    f"folder: expected an empty one, or this agent as it was left there, got "
                    f"{folder} with another agent in it, or with more of this one; continue with "
                    "Bandit.load(folder), or pass another folder"
                )
            self._kept = KeptFolder(place, self._state(), save_every)
            self._known = self._weights()
            weakref.finalize(self, self._kept.close)
        return self

    def close(self) -> None:
        """Stop saving, after a last snapshot."""
        with self._turn:
            if self._kept is not None:
                self._kept.snapshot(self._state())
                self._kept.close()
                self._leave(self._kept.folder)
                self._kept = None

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        net: nn.Module | Sequence[nn.Module] | None = None,
        likelihood: Likelihood | None = None,
        optimizer: OptimizerFactory | None = None,
        schedule: RateSchedule | None = None,
    ) -> Self:
        """Load the agent of a folder; it continues bit for bit on the same machine.

        Pickles run code: load only what you trust. A part that is passed is not unpickled.

        Args:
            folder: That of `save` or `keep_in`.
            net: The network, if it could not be pickled; it gets the saved weights.
            likelihood: The likelihood, likewise.
            optimizer: The function that makes the optimiser, likewise.
            schedule: The schedule, likewise.
        """
        place = Path(folder)
        left = place.resolve(), folders.fingerprint(place)
        state, events = folders.read(place)
        given = {"net": net, "likelihood": likelihood, "optimizer": optimizer, "schedule": schedule}
        parts: dict[str, Any] = {
            name: folders.unpickled(name, state["parts"][name]) if part is None else part
            for name, part in given.items()
        }
        agent = cls._restored(parts, state)
        for event in events:
            agent._again(event)
        agent._left = left
        return agent

    @contextmanager
    def _keeping(self, event: Event) -> Iterator[None]:
        """Keep the event that the block makes happen; if it fails, the state that it leaves."""
        kept = self._kept
        if kept is None:
            yield
            return
        touched = self._weights() != self._known  # by hand: then the journal would mislead
        try:
            yield
        except BaseException:
            self._snapshot(kept)
            raise
        if touched:
            self._snapshot(kept)
        else:
            kept.append(event, self._state)
            self._known = self._weights()

    def _snapshot(self, kept: KeptFolder) -> None:
        kept.snapshot(self._state())
        self._known = self._weights()

    def _leave(self, folder: Path) -> None:
        """Remember the contents of a folder, to detect other writers."""
        self._left = folder.resolve(), folders.fingerprint(folder)

    @abstractmethod
    def _weights(self) -> WeightVersions:
        """Return something that differs after a weight was changed."""

    @abstractmethod
    def _state(self) -> State:
        """Everything, to save."""

    @classmethod
    @abstractmethod
    def _restored(cls, parts: dict[str, Any], state: State) -> Self:
        """Return the agent of a state, around networks, likelihood, optimiser and schedule."""

    @abstractmethod
    def _again(self, event: Event) -> None:
        """Make a call of the journal once more."""
