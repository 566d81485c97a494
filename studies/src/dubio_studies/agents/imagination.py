"""Imagined trajectories: particles that each follow one function of the dynamics, step by step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From states (M, P, D), their features (M, P, F) and actions (M, P) to the next states."""

JITTER = 1e-6  # added to variances, so that particles in one place have a Cholesky factor


@final
@dataclass(frozen=True)
class Functions:
    """Networks with fixed masks, as functions from (state, action) to the next state.

    Particle p of member m has masks of its own, at every call the same: it is one draw from the
    posterior over functions, followed through time (Gal et al. 2016, section 3.1).

    Attributes:
        centre: What is subtracted from inputs.  # (M, 1, I)
        gains: For each layer, what multiplies its inputs.  # (M, P, inputs)
        weights: For each layer.  # (M, inputs, outputs)
        biases: For each layer.  # (M, 1, outputs)
    """

    centre: Tensor
    gains: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]

    def __call__(self, states: Tensor, features: Tensor, actions: Tensor) -> Tensor:  # (M, P, D)
        """The next states: states plus what the networks say of the change."""
        hidden = torch.cat([features, actions[..., None]], dim=-1) - self.centre
        *inner, last = zip(self.gains, self.weights, self.biases, strict=True)
        for gain, weight, bias in inner:
            hidden = torch.baddbmm(bias, hidden * gain, weight).relu()
        gain, weight, bias = last
        return states + torch.baddbmm(bias, hidden * gain, weight)

    def repeated(self, times: int) -> "Functions":
        """The same functions again and again: particle p + kP is particle p."""
        gains = tuple(gain.repeat(1, times, 1) for gain in self.gains)
        return Functions(self.centre, gains, self.weights, self.biases)


def standardised(noise: Tensor) -> Tensor:  # (..., P, D)
    """The same particles, moved so that their mean is 0 and their covariance 1, exactly."""
    if noise.shape[-2] <= noise.shape[-1]:
        raise ValueError(
            f"particles: expected more than the {noise.shape[-1]} numbers of a state, got "
            f"{noise.shape[-2]}; a covariance needs them."
        )
    centred = noise - noise.mean(-2, keepdim=True)
    factor = torch.linalg.cholesky(centred.mT @ centred / noise.shape[-2])
    found: Tensor = torch.linalg.solve_triangular(factor, centred.mT, upper=False)
    return found.mT


def moment_matched(particles: Tensor, noise: Tensor) -> Tensor:  # (M, P, D), (M, P, D)
    """Other particles with the same mean and covariance, from a Gaussian: m + z·Lᵀ, LLᵀ = S.

    Gal et al. 2016, section 3.3. Gradients flow through mean and covariance alone.

    Args:
        particles: Those whose moments count.
        noise: z, `standardised`.
    """
    mean = particles.mean(1, keepdim=True)
    centred = particles - mean
    covariance = centred.mT @ centred / particles.shape[1]
    jitter = JITTER * torch.eye(particles.shape[2], dtype=particles.dtype)
    factor: Tensor = torch.linalg.cholesky(covariance + jitter)
    return mean + noise @ factor.mT


def imagine(
    step: Step,
    policy: Callable[[Tensor], Tensor],
    features: Callable[[Tensor], Tensor],
    start: Tensor,  # (M, P, D)
    steps: int,
    noise: Tensor | None = None,  # (T, M, P, D)
) -> Tensor:  # (T, M, P, D)
    """The states after each step, differentiable in the policy.

    Args:
        step: The dynamics.
        policy: From features to actions.
        features: From states to what dynamics and policy see of them.
        start: Where particles are at first.
        steps: T.
        noise: For moment matching after each step, `standardised`; without it particles go on from
            where they are.
    """
    states, trajectory = start, []
    for t in range(steps):
        seen = features(states)
        states = step(states, seen, policy(seen))
        if noise is not None:
            states = moment_matched(states, noise[t])
        trajectory.append(states)
    return torch.stack(trajectory)
