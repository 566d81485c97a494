"""Gaussian masks, with a fixed variance or a learned one (variational dropout)."""

from abc import ABC
from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.masks.mask import NORMAL, Smooth, bernoulli_kl
from dubio.native.masked import GAUSSIAN, MaskRule


class _OfNormalNoise(Smooth, ABC):
    """Multiplicative N(1, α) noise, log α = −logit keep."""

    noises = (NORMAL,)

    @property
    def rule(self) -> MaskRule:
        """The kernels' name for it."""
        return MaskRule(GAUSSIAN)

    def factor(self, logit: Tensor, noise: Tensor) -> Tensor:
        """Return 1 + √α·ε."""
        return 1 + (-0.5 * logit).exp() * noise


@final
class Gaussian(_OfNormalNoise):
    """Multiplicative N(1, α) noise with α = drop/keep, the variance of a Bernoulli mask.

    Args:
        units: Number of rates: 1, or one for each unit or channel.
        drop: The rate of the Bernoulli mask with the same variance.
    """

    def __init__(self, units: int = 1, *, drop: float = 0.5, **options: Any) -> None:
        if options.pop("learn", False):
            raise TypeError(
                "learn: expected masks.LearnableGaussian for a variance that is learned, got "
                "masks.Gaussian(learn=True), as it was called before; states of both are the same"
            )
        if options:
            raise TypeError(f"Gaussian: expected units and drop, got {', '.join(options)} as well")
        super().__init__(units, drop=drop, learn=False)

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Return the expected squared norm, ℓ²‖W_k‖²(1 + α)/2, as 1/keep = 1 + α."""
        return bernoulli_kl(weights, self.keep, length_scale)


@final
class LearnableGaussian(_OfNormalNoise):
    """Variational dropout (Kingma et al. 2015): N(1, α) noise whose variance α is a parameter.

    The prior is log-uniform on the weights' magnitude.

    Args:
        units: Number of rates: 1, or one for each unit or channel.
        drop: Initial rate: that of the Bernoulli mask with the same variance, α = drop/keep.
    """

    def __init__(self, units: int = 1, *, drop: float = 0.5) -> None:
        super().__init__(units, drop=drop)

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Return the divergence of each weight from the log-uniform prior, which depends on α only.

        By the approximation of Molchanov et al. (2017), −KL ≈ k₁σ(k₂ + k₃ log α) − ½ log(1 + 1/α) −
        k₁. Kingma's polynomial (eq. 14 there) holds for α ≤ 1 only.
        """
        log_alpha = -self.logit
        negative = (
            0.63576 * torch.sigmoid(1.87320 + 1.48695 * log_alpha)
            - 0.5 * F.softplus(-log_alpha)
            - 0.63576
        )
        return -weights.shape[0] * negative.expand(weights.shape[1]).sum()
