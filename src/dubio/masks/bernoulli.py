"""Bernoulli masks with fixed rates."""

from typing import final

import torch
from torch import Tensor

from dubio.masks.mask import Mask, along, bernoulli_kl
from dubio.masks.natively import native_masking
from dubio.native.masked import BERNOULLI, Masking, MaskRule
from dubio.noise.undrawn import Undrawn, drawn


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

    def masking(self, xs: list[Tensor], axis: int, *noises: Tensor | Undrawn) -> Masking | None:
        """Return the mask as the kernels multiply tensors by it."""
        (noise,) = noises

        def by_torch(x: Tensor, keep: Tensor) -> Tensor:
            u = drawn(noise)
            return x * _factor(along(keep, u, axis), u)

        keep = self._keep
        return native_masking(xs, axis, noise, (MaskRule(BERNOULLI),), keep, keep, by_torch)

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Return Σ_k ℓ²‖W_k‖²/(2·keep), without the constant entropy of a fixed rate."""
        return bernoulli_kl(weights, self._keep, length_scale)


def _factor(keep: Tensor, u: Tensor) -> Tensor:
    return (u < keep) / keep
