"""From the rewards that functions expect to probabilities of actions."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.decide.action_values import ActionValues
from dubio.decide.arguments import all_finite
from dubio.decide.settings import Settings


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """The actions chosen by an agent, one row per context.

    Attributes:
        action: `(B,)` int64.
        probability: Probability of that action, `(B,)` float64: exactly the one it was drawn with.
        probabilities: Probabilities of all actions, `(B, A)` float64.
        id: The ids to pass to `Bandit.update`: `(B,)` int64.
    """

    action: Tensor
    probability: Tensor
    probabilities: Tensor
    id: Tensor

    def __len__(self) -> int:
        return len(self.action)


@final
class RulePolicy:
    """The choice rule of an agent, applied to the values of its networks.

    Args:
        values: The expected reward of every action, in each of some functions.
        settings: Of the agent.
    """

    def __init__(self, values: ActionValues, settings: Settings) -> None:
        self._values = values
        self._settings = settings

    def scores(
        self, contexts: Tensor, functions: int, generator: torch.Generator
    ) -> Tensor:  # (S, B, A)
        """Return the expected rewards; raise an error if they are not finite."""
        scores = self._values(contexts, functions, generator)
        if not all_finite(scores):
            raise FloatingPointError(
                "net: expected finite rewards, got NaN or infinite ones; look at its weights: "
                "use a smaller learning rate, or scale contexts and rewards"
            )
        return scores

    def probabilities(
        self, contexts: Tensor, allowed: Tensor | None, functions: int, generator: torch.Generator
    ) -> Tensor:  # (B, A)
        """Return the probability of every action, given functions that are drawn for it."""
        settings = self._settings
        scores = self.scores(contexts, functions, generator)
        if settings.rule in ("thompson", "upper") and self._values.is_one_function:
            raise ValueError(
                f"net: expected noise, or several networks, for the rule {settings.rule}, got one "
                "network without noise; give it dropout or dubio.BayesLinear, pass an ensemble, or "
                "use rule='epsilon'"
            )
        return settings.probabilities(scores, allowed).cpu()
