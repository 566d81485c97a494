"""Rules: from the scores that some functions give to actions, to the probability of each action."""

from typing import Literal, get_args

import torch
from torch import Tensor

from dubio.noise.float64 import in_float64, with_float64

ActionRule = Literal["thompson", "greedy", "epsilon", "upper"]
"""Names of the rules by which a bandit chooses."""
RULES: tuple[ActionRule, ...] = get_args(ActionRule)


def thompson(scores: Tensor, allowed: Tensor | None = None) -> Tensor:  # (S, B, A) -> (B, A)
    """Return the share of functions in which an action is the best; ties are split evenly.

    Thompson (1933) draws one function and takes its best action. To draw S functions, count which
    action wins how often, and draw an action from these shares is the same on average over the
    functions; but now the probability of the action, given the functions, is known exactly.
    """
    return _winners(_masked(with_float64(scores), allowed)).mean(0)


def greedy(scores: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return one for the action with the best mean over functions; ties are split evenly."""
    return _winners(_masked(in_float64(scores).mean(0), allowed))


def epsilon_greedy(scores: Tensor, allowed: Tensor | None, epsilon: float) -> Tensor:
    """Return (1 − ε) · greedy + ε · uniform over allowed actions."""
    best = greedy(scores, allowed)
    return best.mul_(1 - epsilon).add_(epsilon * _uniform(best, allowed))


def upper(scores: Tensor, allowed: Tensor | None, bonus: float) -> Tensor:
    """Return one for the action with the best mean + bonus · standard deviation over functions."""
    deviation, mean = torch.std_mean(in_float64(scores), 0)
    return _winners(_masked(mean + bonus * deviation, allowed))


def with_floor(probabilities: Tensor, allowed: Tensor | None, floor: float) -> Tensor:
    """Return (1 − n · floor) · π + floor over the n allowed actions."""
    if floor == 0:
        return probabilities
    uniform = _uniform(probabilities, allowed)
    count = uniform.gt(0).sum(-1, keepdim=True)
    return probabilities * (1 - count * floor) + uniform * count * floor


def drawn(probabilities: Tensor, generator: torch.Generator) -> Tensor:  # (B, A) -> (B,)
    """Return an action for each row: the first in a race of exponential clocks with these rates.

    As `torch.multinomial`, without its checks, which take most of its time. A rate of zero loses.
    """
    clocks = torch.empty_like(probabilities).exponential_(generator=generator)
    return probabilities.div(clocks).argmax(-1)


def _winners(scores: Tensor) -> Tensor:  # (..., A), float64
    best = scores == scores.amax(-1, keepdim=True)
    return best.double().div_(best.sum(-1, keepdim=True))


def _masked(scores: Tensor, allowed: Tensor | None) -> Tensor:
    return scores if allowed is None else scores.masked_fill(~allowed.to(scores.device), -torch.inf)


def _uniform(like: Tensor, allowed: Tensor | None) -> Tensor:  # (B, A)
    chances = torch.ones_like(like) if allowed is None else allowed.to(like).expand_as(like)
    return chances / chances.sum(-1, keepdim=True)
