"""Exploration as a rule: how long a function is believed in, and how often actions are random."""

from dataclasses import dataclass
from typing import final


def _check_share(name: str, share: float) -> None:
    if not 0 <= share <= 1:  # or NaN
        raise ValueError(f"{name}: expected a share from 0 to 1, got {share}.")


@final
@dataclass(frozen=True)
class Annealed:
    """A share of random actions that falls on a line, as in ConvNetJS (`deepqlearn.js`).

        ε = min(1, max(least, 1 − (age − burn_in)/(total − burn_in)))

    Attributes:
        total: The age at which the line is at zero.
        burn_in: The age until which all actions are random.
        least: What stays.
    """

    total: int = 200_000
    burn_in: int = 3000
    least: float = 0.05

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0 <= self.burn_in < self.total:
            raise ValueError(
                f"burn_in: expected from 0 to less than the total of {self.total}, got "
                f"{self.burn_in}."
            )
        _check_share("least", self.least)

    def __call__(self, age: int) -> float:
        """The share after so many ticks."""
        left = 1 - (age - self.burn_in) / (self.total - self.burn_in)
        return min(1.0, max(self.least, left))


@final
@dataclass(frozen=True)
class Constant:
    """The same share of random actions at any time.

    Attributes:
        share: ε.
    """

    share: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        _check_share("share", self.share)

    def __call__(self, age: int) -> float:
        """The share, whatever the age."""
        return self.share


@final
@dataclass(frozen=True)
class Exploration:
    """By which rule agents choose.

    An agent draws a function from what it believes, a network with one mask or one member of an
    ensemble, and takes the action that is best by this function: Thompson sampling. A network
    without noise is one function, and the rule is greedy, or ε-greedy with random actions.

    Attributes:
        hold: Ticks after which another function is drawn; None for the end of an episode.
        epsilon: The share of random actions, by age.
        random_ticks: How many ticks all actions are random at first.
    """

    hold: int | None = 1
    epsilon: Annealed | Constant = Constant()
    random_ticks: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no rule."""
        if self.hold is not None and (not isinstance(self.hold, int) or self.hold < 1):
            raise ValueError(f"hold: expected at least 1 tick, or None, got {self.hold}.")
        if self.random_ticks < 0:
            raise ValueError(f"random_ticks: expected 0 or more, got {self.random_ticks}.")
        if not isinstance(self.epsilon, Annealed | Constant):
            raise TypeError(
                f"epsilon: expected Annealed(…) or Constant(…), got {self.epsilon!r}; try "
                f"Constant(0.1)."
            )

    def share_of_random_actions(self, age: int) -> float:
        """At this age."""
        return 1.0 if age < self.random_ticks else self.epsilon(age)
