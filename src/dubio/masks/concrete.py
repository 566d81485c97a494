"""Concrete masks: a smooth stand-in for Bernoulli masks with learned rates."""

from typing import SupportsFloat, final

import torch
from torch import Tensor

from dubio.masks.mask import Smooth, learned_bernoulli_kl
from dubio.native.masked import CONCRETE, MaskRule


@final
class Concrete(Smooth):
    """Concrete dropout: σ((φ + logit u)/t)/keep, u ~ U(0, 1) (Gal et al. 2017, eq. 5, for keeping).

    Differentiable in φ, at the price of a bias: at t = 0.1 the mask's second moment is 1.22 where
    that of Bernoulli(0.8) is 1.25.

    Args:
        units: Number of rates: 1, or one for each unit or channel.
        drop: Initial dropout rate.
        temperature: How far the mask is from a binary one.
    """

    kl_is_known = True

    def __init__(self, units: int = 1, *, drop: float = 0.1, temperature: float = 0.1) -> None:
        super().__init__(units, drop=drop)
        if not (isinstance(temperature, SupportsFloat) and temperature > 0):
            raise ValueError(
                f"temperature: expected a positive number, got {temperature!r}; try 0.1"
            )
        self.temperature = temperature

    @property
    def rule(self) -> MaskRule:
        """The mask as the kernels know it."""
        return MaskRule(CONCRETE, float(self.temperature))

    def factor(self, logit: Tensor, noise: Tensor) -> Tensor:
        """Return the relaxed mask divided by keep."""
        tiny = torch.finfo(noise.dtype).eps
        soft = torch.sigmoid((logit + noise.clamp(tiny, 1 - tiny).logit()) / self.temperature)
        return soft * torch.sigmoid(logit).reciprocal()

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Return Σ_k ℓ²‖W_k‖²/(2·keep_k) − H(keep_k) (Gal et al. 2017, eqs. 3–4)."""
        return learned_bernoulli_kl(weights, self.logit, length_scale)
