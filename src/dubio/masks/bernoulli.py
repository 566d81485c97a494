"""Bernoulli masks with fixed rates."""

from typing import final

import torch
from torch import Tensor

from dubio.masks.mask import Mask, along, bernoulli_kl
from dubio.masks.natively import multiply_natively
from dubio.native.masked import BERNOULLI, MaskRule
from dubio.noise.undrawn import Undrawn


@final
class Bernoulli(Mask):
    """Dropout with a fixed rate: z/keep with z ~ Bernoulli(keep).

    Gal & Ghahramani 2016, eqs. 6–7.
    """

    def __init__(self, units: int = 1, *, drop: float = 0.5) -> None:
        super().__init__(units, drop=drop)
        self._keep: Tensor
        self.register_buffer("_keep", torch.full((units,), 1.0 - drop))

    @property
    def keep(self) -> Tensor:
        """Probability of keeping each unit: (units,)."""
        return self._keep

    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """Return 1[u < keep]/keep."""
        (u,) = noises
        return _factor(along(self._keep, u, axis), u)

    def multiply(self, xs: list[Tensor], axis: int, *noises: Tensor | Undrawn) -> list[Tensor]:
        """Multiply tensors by the mask that the noise makes."""
        (noise,) = noises
        if not isinstance(noise, Undrawn):
            return super().multiply(xs, axis, noise)

        def by_torch(x: Tensor, keep: Tensor) -> Tensor:
            u = noise.tensor()
            return x * _factor(along(keep, u, axis), u)

        keep = self._keep
        known = multiply_natively(xs, axis, noise, (MaskRule(BERNOULLI),), keep, keep, by_torch)
        return super().multiply(xs, axis, noise) if known is None else known

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Return Σ_k ℓ²‖W_k‖²/(2·keep), without the constant entropy of a fixed rate."""
        return bernoulli_kl(weights, self._keep, length_scale)


def _factor(keep: Tensor, u: Tensor) -> Tensor:
    return (u < keep) / keep
