"""Logged choices: contexts, actions, their probabilities, and rewards."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor

from dubio.decide.arguments import ArrayLike, as_tensor, read_numbers

_CONTEXT = "context_"
_ROUNDING = 1e-5  # of sums of float32


@final
class Log:
    """Logged choices and their rewards, one row each.

    Args:
        contexts: `(N, D)`, or anything else with rows first.
        actions: The actions taken, `(N,)`, counted from 0.
        rewards: `(N,)`.
        probabilities: Probability of the action taken, `(N,)`, or of every action, `(N, A)`. The
            latter shows where the log lacks support.
        allowed: Which actions were allowed, `(N, A)` bool, if not all.

    Attributes:
        contexts: As given. All attributes are copies.
        actions: int64.
        rewards: float64.
        probability: Probability of the action taken, `(N,)` float64.
        probabilities: Probabilities of all actions, `(N, A)` float64; None if unknown.
        allowed: As given.
    """

    def __init__(
        self,
        contexts: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        probabilities: ArrayLike,
        allowed: ArrayLike | None = None,
    ) -> None:
        self.contexts = as_tensor("contexts", contexts).clone()
        rows = len(self.contexts)
        if self.contexts.is_floating_point() and not bool(self.contexts.isfinite().all()):
            raise ValueError(
                "contexts: expected finite numbers, got NaN or infinity; drop or impute these rows"
            )
        self.actions = as_tensor("actions", actions).cpu().clone()
        kind = self.actions.dtype
        if self.actions.shape != (rows,) or kind.is_floating_point or kind == torch.bool:
            raise ValueError(
                f"actions: expected {rows} whole numbers, got {self.actions.dtype} of shape "
                f"{tuple(self.actions.shape)}; pass one for each context, counted from 0"
            )
        self.actions = self.actions.to(torch.int64)
        if rows and int(self.actions.min()) < 0:
            raise ValueError(f"actions: expected numbers from 0, got {int(self.actions.min())}")
        self.rewards = read_numbers("rewards", rewards, rows).clone()
        given = as_tensor("probabilities", probabilities).cpu().double().clone()
        self.probabilities: Tensor | None = None
        if given.ndim == 2:
            self.probabilities = check_distributions("probabilities", given, self.actions)
            given = given.gather(1, self.actions[:, None]).squeeze(1)
        self.probability = given
        if given.shape != (rows,):
            raise ValueError(
                f"probabilities: expected shape ({rows},) or ({rows}, actions), got "
                f"{tuple(given.shape)}; pass how probable each logged action was"
            )
        wrong = (~((given > 0) & (given <= 1))).nonzero().flatten().tolist()
        if wrong:
            raise ValueError(
                f"probabilities: expected > 0 and <= 1 for the actions that were taken, got "
                f"{float(given[wrong[0]]):.4g} in row {wrong[0]} ({len(wrong)} rows in all); what "
                "was done cannot have been impossible: look at how they were logged"
            )
        self.allowed = None if allowed is None else _check_allowed(allowed, self.actions)

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        return f"Log({len(self)} choices, contexts {tuple(self.contexts.shape[1:])})"

    def __getitem__(self, rows: slice | Tensor) -> Self:
        """Return some rows."""
        known = self.probability if self.probabilities is None else self.probabilities
        return type(self)(
            self.contexts[rows],
            self.actions[rows],
            self.rewards[rows],
            known[rows],
            None if self.allowed is None else self.allowed[rows],
        )

    def to_frame(self, names: Sequence[str] | None = None) -> Any:
        """Return a pandas data frame with one row per choice; `from_frame` reads it.

        The columns are those of the context, action, reward, probability and, if known,
        probability_0, … of all actions and allowed_0, ….

        Args:
            names: Names of the context's columns; by default context_0, ….
        """
        import pandas

        if self.contexts.ndim != 2:
            raise ValueError(
                f"contexts: expected vectors for a frame, got shape {tuple(self.contexts.shape)}; "
                "flatten them first"
            )
        width = self.contexts.shape[1]
        names = [f"{_CONTEXT}{place}" for place in range(width)] if names is None else list(names)
        if len(names) != width:
            raise ValueError(
                f"names: expected {width}, one a number of a context, got {len(names)}"
            )
        others = [*("action", "reward", "probability"), *self._tables()]
        taken = [name for place, name in enumerate(names) if name in [*others, *names[:place]]]
        if taken:
            raise ValueError(
                f"names: expected names that no other column has, got {taken}; the others are "
                f"{', '.join(others)}"
            )
        columns: dict[str, Any] = dict(zip(names, self.contexts.cpu().numpy().T, strict=True))
        columns["action"] = self.actions.numpy()
        columns["reward"] = self.rewards.numpy()
        columns["probability"] = self.probability.numpy()
        return pandas.DataFrame(columns | self._tables())

    def _tables(self) -> dict[str, Tensor]:
        """Return the columns with a value for every action, by name."""
        tables = {"probability": self.probabilities, "allowed": self.allowed}
        return {
            f"{name}_{action}": table[:, action]
            for name, table in tables.items()
            if table is not None
            for action in range(table.shape[1])
        }

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        contexts: Sequence[str] | None = None,
        action: str = "action",
        reward: str = "reward",
        probability: str = "probability",
    ) -> Self:
        """Read a log from a table with one row per choice.

        Args:
            frame: A pandas data frame, or anything else with columns by name.
            contexts: The columns of the context; by default all whose names begin with context_, in
                the order of their numbers if they have any.
            action: The column of actions, counted from 0.
            reward: The column of rewards.
            probability: The column with the probability of the action taken. Columns of this name
                with _0, _1, … hold the probabilities of all actions, and columns allowed_0, … which
                actions were allowed.
        """
        known = [str(name) for name in getattr(frame, "columns", getattr(frame, "keys", list)())]
        if contexts is None:
            contexts = [name for name in known if name.startswith(_CONTEXT)]
            if all(name.removeprefix(_CONTEXT).isdecimal() for name in contexts):
                contexts.sort(key=lambda name: int(name.removeprefix(_CONTEXT)))
        if not contexts:
            raise KeyError(
                f"contexts: expected names of columns, got none, and no column begins with "
                f"{_CONTEXT}; name them: Log.from_frame(frame, contexts=[…])"
            )
        every = _numbered(known, f"{probability}_")
        allowed = _numbered(known, "allowed_")
        return cls(
            np.stack([_column(frame, name) for name in contexts], 1),
            _column(frame, action),
            _column(frame, reward),
            np.stack([_column(frame, name) for name in every], 1)
            if every
            else _column(frame, probability),
            np.stack([_column(frame, name) for name in allowed], 1) if allowed else None,
        )


def check_distributions(name: str, given: Tensor, actions: Tensor) -> Tensor:  # (N, A)
    """Check rows of probabilities, with at least as many columns as logged actions."""
    least = 1 + (int(actions.max()) if len(actions) else 0)
    if given.ndim != 2 or len(given) != len(actions) or given.shape[1] < least:
        raise ValueError(
            f"{name}: expected shape ({len(actions)}, actions) with at least {least} actions, got "
            f"{tuple(given.shape)}; pass the probability of every action for each logged choice"
        )
    sums = given.sum(1)
    wrong = (~((given >= 0).all(1) & ((sums - 1).abs() <= _ROUNDING))).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(
            f"{name}: expected numbers >= 0 that sum to 1 in every row, got "
            f"{given[wrong[0]].tolist()} in row {wrong[0]} ({len(wrong)} rows in all)"
        )
    return given


def _check_allowed(given: ArrayLike, actions: Tensor) -> Tensor:  # (N, A)
    """Return which actions could be taken; those that were taken could."""
    allowed = as_tensor("allowed", given).cpu().clone()
    least = 1 + (int(actions.max()) if len(actions) else 0)
    right = allowed.ndim == 2 and len(allowed) == len(actions) and allowed.shape[1] >= least
    if allowed.dtype != torch.bool or not right:
        raise ValueError(
            f"allowed: expected True or False of shape ({len(actions)}, actions) with at least "
            f"{least} actions, got {allowed.dtype} of shape {tuple(allowed.shape)}"
        )
    wrong = (~allowed.gather(1, actions[:, None]).squeeze(1)).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(
            f"allowed: expected the actions that were taken to be allowed, got action "
            f"{int(actions[wrong[0]])} in row {wrong[0]} ({len(wrong)} rows in all)"
        )
    return allowed


def _numbered(names: Sequence[str], prefix: str) -> list[str]:
    """Return the columns prefix0, prefix1, …, in that order."""
    found: list[str] = []
    while f"{prefix}{len(found)}" in names:
        found.append(f"{prefix}{len(found)}")
    return found


def _column(frame: Any, name: str) -> Any:
    try:
        return np.asarray(frame[name])
    except (KeyError, ValueError, IndexError) as error:
        names = list(getattr(frame, "columns", getattr(frame, "keys", list)()))
        raise KeyError(
            f"{name}: expected a column of this name, got {names}; name the columns: "
            "Log.from_frame(frame, action=…, reward=…, probability=…)"
        ) from error
