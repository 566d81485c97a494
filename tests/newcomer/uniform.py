"""Uniform masks: the smallest example of a mask."""

from typing import final

from torch import Tensor

from dubio.masks.mask import LearnedRate, bernoulli_kl


@final
class Uniform(LearnedRate):
    """Multiplicative noise 1 + √(3α)·(2u − 1), u ~ U(0, 1), with mean one and variance α.

    Args:
        units: How many rates: 1, or one for each unit or channel.
        drop: The rate of the Bernoulli mask with the same variance, α = drop/keep.
    """

    def __init__(self, units: int = 1, *, drop: float = 0.5) -> None:
        super().__init__(units, drop=drop, learn=False)

    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """1 + √(3α)·(2u − 1), as α = exp(−logit keep)."""
        (u,) = noises
        return 1 + (3 * (-self.logit_along(u, axis)).exp()).sqrt() * (2 * u - 1)

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """The expected squared norm, Σ_k ℓ²‖W_k‖²(1 + α)/2, as 1/keep = 1 + α."""
        return bernoulli_kl(weights, self.keep, length_scale)
