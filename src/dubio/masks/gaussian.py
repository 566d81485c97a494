"""Gaussian masks, with a fixed variance or a learned one (variational dropout)."""

from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.masks.mask import NORMAL, LearnedRate, bernoulli_kl


@final
class Gaussian(LearnedRate):
    """Multiplicative N(1, α) noise with α = drop/keep, the variance of a Bernoulli mask.

    With ``learn=True`` it is variational dropout (Kingma et al. 2015): α is a parameter, through
    log α = −logit keep, and the prior is log-uniform on the weights' magnitude.

    Args:
        units: How many rates: 1, or one for each unit or channel.
        drop: The rate of the Bernoulli mask with the same variance.
        learn: Whether α is learned.
    """

    noises = (NORMAL,)

    def __init__(self, units: int = 1, *, drop: float = 0.5, learn: bool = False) -> None:
        super().__init__(units, drop=drop, learn=learn)

    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """1 + √α·ε."""
        (epsilon,) = noises
        return 1 + (-0.5 * self.logit_along(epsilon, axis)).exp() * epsilon

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Fixed: the expected squared norm, ℓ²‖W_k‖²(1 + α)/2, as 1/keep = 1 + α.

        Learned: for each weight the divergence from the log-uniform prior, which depends on α
        alone, by the approximation of Molchanov et al. (2017), −KL ≈ k₁σ(k₂ + k₃ log α) −
        ½ log(1 + 1/α) − k₁. Kingma's polynomial (eq. 14 there) holds for α ≤ 1 only.
        """
        if not self.learn:
            return bernoulli_kl(weights, self.keep, length_scale)
        log_alpha = -self.logit
        negative = (
            0.63576 * torch.sigmoid(1.87320 + 1.48695 * log_alpha)
            - 0.5 * F.softplus(-log_alpha)
            - 0.63576
        )
        return -weights.shape[0] * negative.expand(weights.shape[1]).sum()
