"""The first layer: histories are scaled to unit length, then masked, then summed."""

from typing import final

import torch
from torch import Tensor, nn

from dubio.masks import LearnableBernoulli, Mask
from dubio.recommend import rates
from dubio.recommend.rates import RateEstimator
from dubio.recommend.sparse import SparseLinear, SparseRows


@final
class MaskedInput(nn.Module):
    """a_v = Wᵀ(x/|x|₂ ⊙ z_v) + b for V + 1 masks z_v of every history.

    Liang et al. 2018 scale first and mask then, so that a mask does not change the scale of what
    it keeps.

    Args:
        num_items: I.
        features: H.
        mask: With one rate, or one for each item; None for none.
        estimator: Of the gradient for the rates, if the mask is a `LearnableBernoulli`:
            ``trapezoid`` or ``arm`` from the pair of passes with noise u and 1 − u, or
            ``trapezoid_once`` from one pass.
    """

    def __init__(
        self,
        num_items: int,
        features: int,
        mask: Mask | None,
        estimator: RateEstimator = "trapezoid",
    ) -> None:
        super().__init__()
        self.linear = SparseLinear(num_items, features)
        self.mask = mask
        self.estimator = estimator

    @property
    def weight(self) -> Tensor:
        """W, (I, H)."""
        return self.linear.weight

    @property
    def passes(self) -> int:
        """2 if the noise is also used reflected, else 1."""
        paired = isinstance(self.mask, LearnableBernoulli) and self.estimator != "trapezoid_once"
        return 2 if paired else 1

    def forward(self, rows: SparseRows, noises: tuple[Tensor, ...]) -> Tensor:
        """Return the layer under all masks.

        Args:
            rows: Histories.
            noises: Those of the mask.  # (V + 1, N) each

        Returns:
            (P, V + 1, B, H), with P `passes`.
        """
        entries = rows.unit_norm(self.weight.dtype)[None]
        if self.mask is not None:
            entries = entries * self._multipliers(self.mask, rows, noises)  # (P·(V + 1), N)
        found: Tensor = self.linear(rows, entries)
        return found.view(self.passes, -1, *found.shape[1:])

    def once(self, rows: SparseRows, noises: tuple[Tensor, ...]) -> Tensor:
        """Return the layer under one mask, without reflection."""  # (B, H)
        values = rows.unit_norm(self.weight.dtype)[None]
        if self.mask is not None and noises:
            values = values * rates.multiplier(self.mask, rows, noises)
        found: Tensor = self.linear(rows, values)
        return found[0]

    def dense(self, x: Tensor) -> Tensor:  # (K, I) -> (K, H)
        """Return the layer for dense rows, without scaling and mask."""
        return torch.addmm(self.linear.bias, x, self.weight)

    def average(self, losses: Tensor, rows: SparseRows, noises: tuple[Tensor, ...]) -> Tensor:
        """Return the mean over passes, with a gradient for the rates."""  # (P, B) -> (B,)
        if self.passes == 2 and self.estimator == "arm":
            assert isinstance(self.mask, LearnableBernoulli)
            return rates.with_arm(losses, self.mask, rows, *noises)
        return losses.mean(0)

    def _multipliers(self, mask: Mask, rows: SparseRows, noises: tuple[Tensor, ...]) -> Tensor:
        if self.passes == 1:
            return rates.multiplier(mask, rows, noises)
        (u,) = noises
        both = torch.cat([u, rates.reflected(u)])  # (2(V + 1), N)
        if self.estimator == "arm":
            assert isinstance(mask, LearnableBernoulli)
            return rates.path_multiplier(mask, rows, both)
        return rates.multiplier(mask, rows, (both,))
