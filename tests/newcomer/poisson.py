"""Poisson masks, with a fixed rate or a learned one."""

from typing import final

import torch
from torch import Tensor

from dubio.masks.mask import LearnedRate, bernoulli_kl

BITS = 20  # counts below 2²⁰


@final
class Poisson(LearnedRate):
    """Multiplicative noise k/λ with k ~ Poisson(λ), λ = keep/drop: mean one, variance 1/λ.

    With ``learn=True`` log λ = logit keep is a parameter. Its gradient is by the trapezoid rule:
    d/dλ E[f(k)] = E[f(k+1) − f(k)] ≈ ½E[f'(k) + f'(k+1)], exact if f is quadratic. Since
    p(k) = p(k+1)·(k+1)/λ, that is E[½(1 + k/λ)·f'(k)].

    Args:
        units: How many rates: 1, or one for each unit or channel.
        drop: The rate of the Bernoulli mask with the same variance.
        learn: Whether λ is learned.
    """

    def __init__(self, units: int = 1, *, drop: float = 0.5, learn: bool = False) -> None:
        super().__init__(units, drop=drop, learn=learn)

    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """k/λ; with dk/dλ := ½(1 + k/λ), its derivative by log λ is ½(1 − k/λ)."""
        (u,) = noises
        log_rate = self.logit_along(u, axis)
        rate = log_rate.detach().exp()
        m = _count(u, rate) / rate
        return m + 0.5 * (1 - m) * (log_rate - log_rate.detach())

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Σ_k ℓ²‖W_k‖²(1 + 1/λ_k)/2, and learned: KL(Poisson(λ_k) ‖ Poisson(1))."""
        norms = bernoulli_kl(weights, self.keep, length_scale)
        if not self.learn:
            return norms
        rate = self.logit.exp()
        return norms + (rate * (self.logit - 1) + 1).expand(weights.shape[1]).sum()


def _count(u: Tensor, rate: Tensor) -> Tensor:
    """The smallest k with P(count ≤ k) > u, found bit by bit: P(count < k) = Γ(k, λ)/Γ(k)."""
    count = torch.zeros_like(u)
    for bit in reversed(range(BITS)):
        more = count + 2**bit
        count = torch.where(torch.special.gammaincc(more, rate) <= u, more, count)
    return count
