"""Beta–Bernoulli masks: each draw has rates of its own."""

from typing import final

import torch
from torch import Tensor, nn

from dubio.masks.mask import UNIFORM, Mask, MaskNoise, along, bernoulli_kl


@final
class BetaBernoulli(Mask):
    """Dropout whose rates are random: z/E[π], z ~ Bernoulli(π), π ~ Kumaraswamy(a, b).

    A draw has one π for each unit, which all rows share, and every row a bit of its own (Lee et
    al. 2018). Given π the mean of z is π, so that of z/E[π] is one; as z² = z, its variance is
    1/E[π] − 1, that of a Bernoulli mask with keep = E[π] = b·B(1 + 1/a, b).

    Both a and b are learned. The gradient goes through π, and for z by the trapezoid rule.

    Args:
        units: How many distributions of rates: 1, or one for each unit or channel.
        drop: The mean of 1 − π to start from, with b = 1.
    """

    noises = (MaskNoise("uniform", per_row=False), UNIFORM)

    def __init__(self, units: int = 1, *, drop: float = 0.1) -> None:
        super().__init__(units, drop=drop)
        odds = torch.full((units,), (1 - drop) / drop)
        self.log_a = nn.Parameter(odds.log())
        self.log_b = nn.Parameter(torch.zeros(units))

    @property
    def keep(self) -> Tensor:
        """E[π] = b·B(1 + 1/a, b), by unit: (units,)."""
        b, above = self.log_b.exp(), 1 + (-self.log_a).exp()
        return (self.log_b + above.lgamma() + b.lgamma() - (above + b).lgamma()).exp()

    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """1[u < π]/E[π] with π = (1 − (1 − v)^{1/b})^{1/a}, for a bit u and a rate v.

        d/dπ E[f(z)] = f(1) − f(0) ≈ ½(f'(0) + f'(1)), hence dz/dπ := ½/P(z).
        """
        v, u = noises
        log_a, log_b, keep = (along(each, u, axis) for each in (self.log_a, self.log_b, self.keep))
        tiny = torch.finfo(v.dtype).eps
        rest = (1 - v.clamp(tiny, 1 - tiny)).log() * (-log_b).exp()  # log (1 − v)^{1/b}
        rate = ((-rest.expm1()).log() * (-log_a).exp()).exp()
        fixed = rate.detach()
        z = u < fixed
        slope = 0.5 / torch.where(z, fixed, 1 - fixed)
        return (z + slope * (rate - fixed)) / keep

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Σ_k ℓ²‖W_k‖²/(2·keep_k), and the divergence of π from a uniform rate.

        That is (1 − 1/a)·(−γ − ψ(b) − 1/b) + log ab − (1 − 1/b).
        """
        norms = bernoulli_kl(weights, self.keep, length_scale)
        over_a, over_b = (-self.log_a).exp(), (-self.log_b).exp()
        mean_log = -_EULER - torch.digamma(self.log_b.exp()) - over_b  # a·E log π
        of_rates = (1 - over_a) * mean_log + self.log_a + self.log_b - (1 - over_b)
        return norms + of_rates.expand(weights.shape[1]).sum()


_EULER = 0.5772156649015329
