"""Schedules for the weight of the KL: functions from the number of the step to a weight."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final


def warm_up(steps: int) -> Callable[[int], float]:
    """Return a schedule that rises linearly from 0 to 1 over the first steps."""
    if steps < 1:
        raise ValueError(f"steps: expected a positive int, got {steps}")
    return _WarmUp(steps)


def minibatch_weights(batches: int) -> Callable[[int], float]:
    """Return Blundell's schedule, π_i = 2^{M−i}/(2^M − 1) for minibatch i of M in an epoch.

    It puts the KL on the first batches; the π_i sum to one over an epoch (Clark et al. 2022,
    section 2.3). They weight the KL against the sum over a minibatch, while the objective uses the
    mean and divides the KL by ``num_data``. So the weights here are M·π_i, whose mean is one.
    """
    if batches < 1:
        raise ValueError(f"batches: expected a positive int, got {batches}")
    return _MinibatchWeights(batches)


@final
@dataclass(frozen=True)
class _WarmUp:
    steps: int

    def __call__(self, step: int) -> float:
        return min(1.0, step / self.steps)


@final
@dataclass(frozen=True)
class _MinibatchWeights:
    batches: int

    def __call__(self, step: int) -> float:
        return self.batches * 0.5 ** (step % self.batches + 1) / (1.0 - 0.5**self.batches)
