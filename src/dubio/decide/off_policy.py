"""Estimate a policy's reward from the log of another policy."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from dubio.decide.arguments import ArrayLike, as_tensor
from dubio.decide.bandit import Bandit
from dubio.decide.log import Log, check_distributions

Policy: TypeAlias = Bandit | Callable[[Tensor], ArrayLike] | ArrayLike
Rewards: TypeAlias = Bandit | Callable[[Tensor], ArrayLike] | ArrayLike

_RARE = 15.0  # −log of half the probability that a mean weight is beyond its bound
_ROUNDING = 1e-9
_FAR = 5.0  # standard errors; a mean weight so far from one happens once in 1.7 million logs


@final
@dataclass(frozen=True)
class Estimate:
    """An off-policy estimate of the mean reward of a policy.

    Attributes:
        value: The estimate.
        standard_error: Its standard error; NaN with a single row (for `snips`, a single row with
            weight).
        effective_sample_size: (Σw)² / Σw², the number of equally weighted rows with the same
            information (Kish 1965); for `replay` the number of rows kept.
        rows: Number of rows used.
    """

    value: float
    standard_error: float
    effective_sample_size: float
    rows: int


def ips(log: Log, policy: Policy) -> Estimate:
    """Estimate a policy's mean reward by inverse propensity scores: mean of w·r, w = π/p.

    Horvitz and Thompson 1952. Unbiased if p(a | x) > 0 wherever π(a | x) > 0.

    Args:
        log: Choices with the probabilities p of the actions taken.
        policy: π: an agent, a function from contexts to probabilities `(N, A)`, or these.
    """
    weights, _ = _weights(log, policy)
    return _mean(weights * log.rewards, weights)


def snips(log: Log, policy: Policy) -> Estimate:
    """Estimate a policy's mean reward by self-normalised IPS: v = Σ w·r / Σ w.

    Swaminathan and Joachims 2015. Consistent, with a bias of order 1/N, and usually less variable
    than `ips`. The standard error is by the delta method, √(Σ w²(r − v)²) / Σ w.

    Args:
        log: As for `ips`.
        policy: As for `ips`.
    """
    weights, _ = _weights(log, policy)
    total = weights.sum()
    if not bool(total > 0):
        raise ValueError(
            "policy: expected one that takes some of the logged actions, got weights of zero in "
            "all rows; this log has no information about it"
        )
    value = (weights * log.rewards).sum() / total
    error = (weights * (log.rewards - value)).square().sum().sqrt() / total
    known = int(weights.count_nonzero()) > 1
    return Estimate(
        float(value), float(error) if known else math.nan, _effective(weights), len(log)
    )


def doubly_robust(log: Log, policy: Policy, expected: Rewards | None = None) -> Estimate:
    """Estimate a policy's mean reward by the mean of Σ_a π(a | x)·q(x, a) + w·(r − q(x, a)).

    Dudík, Langford and Li 2011, eq. 3. Unbiased if the logged probabilities are right, or if q is;
    the better q, the smaller the error. q must not have been fitted to this log.

    Args:
        log: As for `ips`.
        policy: As for `ips`.
        expected: q: an agent, a function from contexts to mean rewards `(N, A)`, or these. By
            default that of the policy, if it is an agent.
    """
    weights, odds = _weights(log, policy)
    if expected is None:
        if not isinstance(policy, Bandit):
            raise TypeError(
                "expected: expected mean rewards, got None; pass a function such as agent.expected"
            )
        expected = policy
    mean_rewards = expected.expected if isinstance(expected, Bandit) else expected
    rewards = _of_contexts("expected", mean_rewards, log)
    if rewards.shape != odds.shape or not bool(rewards.isfinite().all()):
        raise ValueError(
            f"expected: expected finite mean rewards of shape {tuple(odds.shape)}, got shape "
            f"{tuple(rewards.shape)}; pass one for each logged choice and action"
        )
    guessed = rewards.gather(1, log.actions[:, None]).squeeze(1)
    return _mean((odds * rewards).sum(1) + weights * (log.rewards - guessed), weights)


def replay(agent: Bandit, log: Log, *, seed: int = 0) -> Estimate:
    """Run an agent on logged events and let it learn from those that match its choices.

    Li, Chu, Langford and Wang 2011, algorithm 2. The agent chooses; if it chose the logged action,
    it gets the logged reward and learns, otherwise the event is skipped. Their log is uniform. For
    other logs an event is also skipped with probability 1 − c / p(a | x), where c is the smallest
    logged probability: every action is then kept with the same probability c, so that the kept
    events are a sample of the agent's own. The agent is trained in place.

    Args:
        agent: An agent that learns.
        log: Independent events of a policy that does not learn, with its probabilities.
        seed: Seed for the events that are skipped.

    Returns:
        The mean reward of the kept events.

    Warns:
        UserWarning: If the agent takes actions that the log could not, or if the share of kept
            events differs from c.
    """
    if len(log) == 0:
        raise ValueError("log: expected at least one choice, got none")
    known = log.probability if log.probabilities is None else log.probabilities
    least = float(known[known > 0].min())
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(len(log), generator=generator, dtype=torch.float64) < least / log.probability
    earned, lost = [], 0.0
    for row in range(len(log)):
        here = slice(row, row + 1)
        choice = agent.choose(
            log.contexts[here], None if log.allowed is None else log.allowed[here]
        )
        if log.probabilities is not None:
            lost += _outside(choice.probabilities, log.probabilities[here])
        if bool(kept[row]) and int(choice.action) == int(log.actions[row]):
            agent.update(choice.id, log.rewards[here])
            earned.append(float(log.rewards[row]))
        else:
            agent.forget(choice.id)
    _warn_of_replay(len(log), len(earned), least, lost)
    if not earned:
        raise ValueError(
            f"log: expected events that can be kept, got none of {len(log)}; use a longer log, or "
            "one with probabilities that are less extreme"
        )
    rewards = torch.tensor(earned, dtype=torch.float64)
    return _mean(rewards, torch.ones_like(rewards))


def _weights(log: Log, policy: Policy) -> tuple[Tensor, Tensor]:  # (N,), (N, A)
    """Return π/p of the logged actions, and π. Warns if the log cannot tell about the policy."""
    if len(log) == 0:
        raise ValueError("log: expected at least one choice, got none")
    if isinstance(policy, Bandit):
        found = policy.probabilities(log.contexts, allowed=log.allowed)
    else:
        found = _of_contexts("policy", policy, log)
    odds = check_distributions("policy", found, log.actions)
    weights = odds.gather(1, log.actions[:, None]).squeeze(1) / log.probability
    _warn_of_support(log, odds, weights)
    return weights, odds


def _of_contexts(name: str, function: Any, log: Log) -> Tensor:
    found = function(log.contexts) if callable(function) else function
    return as_tensor(name, found).cpu().double()


def _warn_of_support(log: Log, odds: Tensor, weights: Tensor) -> None:
    known = log.probabilities
    if known is not None and known.shape == odds.shape:
        lost = odds.where(known == 0, 0).sum(1)
        if bool((lost > 0).any()):
            warnings.warn(
                f"policy: expected actions that the log could take, got others in "
                f"{int((lost > 0).sum())} of {len(log)} rows, with a share of "
                f"{float(lost.mean()):.3g}; their rewards are not in the log",
                stacklevel=4,
            )
            return
    elif len(log) == 1:
        return
    mean, error = float(weights.mean()), _error_of_mean(log, odds, weights)
    if abs(mean - 1) > _FAR * error + 1e-6:
        warnings.warn(
            f"policy: expected weights of mean 1, got {mean:.3g} ± {error:.2g}; the logged "
            "probabilities are wrong, or the log lacks actions that the policy takes",
            stacklevel=4,
        )


def _error_of_mean(log: Log, odds: Tensor, weights: Tensor) -> float:
    """Return the standard error of the mean weight, for rare weights if it can be known.

    Their variance in a row is then Σ_a π²/p − 1, and by Bernstein's inequality the mean is off by
    more than √(2·L·Σ variances)/N + L·(largest weight)/(3N) with probability 2·exp(−L)
    at most. That is returned as `_FAR` errors.
    """
    known = log.probabilities
    if known is None or known.shape != odds.shape:
        return float(weights.std() / math.sqrt(len(log)))
    ratios = odds.div(known).where(known > 0, 0)
    variances = (odds * ratios).sum(1).sub(1).clamp(min=0)
    bound = math.sqrt(2 * _RARE * float(variances.sum())) + _RARE * float(ratios.max()) / 3
    return bound / len(log) / _FAR


def _outside(odds: Tensor, known: Tensor) -> float:
    """Return how probable it was to take an action that the log could not, of one row."""
    shared = min(odds.shape[1], known.shape[1])
    return 1 - float(odds[:, :shared].where(known[:, :shared] > 0, 0).sum())


def _warn_of_replay(rows: int, kept: int, share: float, lost: float) -> None:
    if lost > _ROUNDING * rows:
        warnings.warn(
            f"agent: expected actions that the log could take, got others with a share of "
            f"{lost / rows:.3g}; their rewards are not in the log",
            stacklevel=3,
        )
        return
    error = math.sqrt(rows * share * (1 - share))
    if abs(kept - rows * share) > _FAR * error + 3:  # 3 for counts of few
        warnings.warn(
            f"log: expected about {rows * share:.0f} ± {error:.0f} of {rows} events to be kept, "
            f"got {kept}; the logged probabilities are wrong, or the log lacks actions that "
            "the agent takes",
            stacklevel=3,
        )


def _mean(values: Tensor, weights: Tensor) -> Estimate:
    error = float(values.std() / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return Estimate(float(values.mean()), error, _effective(weights), len(values))


def _effective(weights: Tensor) -> float:
    """Return (Σ w)² / Σ w², relative to the largest weight, so that it cannot overflow."""
    most = weights.max() if len(weights) else weights.sum()
    if not float(most) > 0:
        return 0.0
    shares = weights / most
    return float(shares.sum().square() / shares.square().sum())
