"""The settings of a bandit: plain numbers and names."""

from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex, final

from torch import Tensor

from dubio.decide import rules
from dubio.decide.rules import RULES, ActionRule


@final
@dataclass(frozen=True)
class Settings:
    """Settings of a `Bandit`, except networks, likelihood, optimiser and schedule.

    The attributes are those of `Bandit`.
    """

    actions: int
    rule: ActionRule
    memory: int
    steps: int
    batch_size: int
    learning_rate: float
    kl_weight: float
    functions: int
    average: int
    floor: float
    epsilon: float
    bonus: float
    keep_log: bool
    seed: int
    condition_every: int = 1

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule: expected one of {', '.join(RULES)}, got {self.rule!r}")
        for name, least in (
            ("actions", 2), ("memory", 1), ("steps", 0), ("batch_size", 1), ("functions", 1),
            ("average", 1), ("condition_every", 1),
        ):  # fmt: skip
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        object.__setattr__(self, "seed", index(self.seed))
        for name in ("learning_rate", "kl_weight", "bonus", "epsilon", "floor"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        for name in ("learning_rate", "kl_weight", "bonus"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a number >= 0, got {getattr(self, name)!r}")
        for name in ("epsilon", "floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"{name}: expected a number from 0 to 1, got {getattr(self, name)!r}"
                )
        if self.floor * self.actions > 1 + 1e-12:
            raise ValueError(
                f"floor: expected at most 1 / {self.actions} for {self.actions} actions, got "
                f"{self.floor}; each has at least this probability"
            )
        if self.rule == "upper" and self.functions < 2:
            raise ValueError("functions: expected at least 2 for the rule upper, got 1")

    def probabilities(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        """Return those of all actions by the rule: `(S, B, A)` to `(B, A)`."""
        match self.rule:
            case "thompson":
                found = rules.thompson(scores, allowed)
            case "greedy":
                found = rules.greedy(scores, allowed)
            case "epsilon":
                found = rules.epsilon_greedy(scores, allowed, self.epsilon)
            case "upper":
                found = rules.upper(scores, allowed, self.bonus)
        return rules.with_floor(found, allowed, self.floor)


def _number(name: str, value: Any) -> float:
    """Return the same as a number of Python."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected a number, got {value!r}") from error


def whole_number(name: str, value: object, least: int) -> int:
    """Return the number, if it is a whole one that is large enough."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or index(value) < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, got {value!r}")
    return index(value)
