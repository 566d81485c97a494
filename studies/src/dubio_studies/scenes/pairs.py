"""Concrete masks for batches in which every scene is twice: gradients of rates with less noise."""

from typing import Any, final

import torch
from torch import Tensor

from dubio.masks.mask import LearnedRate, learned_bernoulli_kl
from dubio.noise.derivative import Derivative


@final
class PairedConcrete(LearnedRate):
    """Concrete dropout with another estimate of the same gradient for its rate.

    Rows 2i and 2i + 1 of a batch are one scene, under masks m and m′ of their own. With the
    gradients g and g′ that come back to the two masks, and their slopes s = ∂m/∂φ and s′, the
    gradient for φ is, summed over channels and pairs,

        (g − g′)(s − s′) + (g + g′) E[s].

    Both this and the usual g s + g′ s′ are 2 Cov(g, s) + 2 E[g] E[s] on average. But what the scene
    says whatever its masks are is in g and g′ alike, and cancels here. BatchNorm in train mode
    lets rows see each other a little; the two estimates then differ by as much.

    Args:
        units: How many rates: 1.
        drop: The dropout rate to start from.
        temperature: How far the mask is from a binary one.
    """

    def __init__(self, units: int = 1, *, drop: float = 0.1, temperature: float = 0.1) -> None:
        super().__init__(units, drop=drop)
        if units != 1:
            raise ValueError(f"units: expected 1 rate for a layer, got {units}; take Concrete.")
        self.temperature = temperature

    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """The relaxed mask over its rate of keeping."""
        (u,) = noises
        if len(u) % 2:
            raise ValueError(
                f"rows: expected every scene twice, got {len(u)} rows; make batches with "
                "Augmented(…, copies=2)."
            )
        tiny = torch.finfo(u.dtype).eps
        v = u.clamp(tiny, 1 - tiny).logit()
        mask: Tensor = _Paired.apply(self.logit_along(u, axis), v, self.temperature)
        return mask

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Σ_k ℓ²‖W_k‖²/(2·keep) − H(keep) (Gal et al. 2017, eqs. 3–4)."""
        return learned_bernoulli_kl(weights, self.logit, length_scale)


class _Paired(Derivative):
    """The mask of a logit and logistic noise v = logit u."""

    @staticmethod
    def forward(logit: Tensor, v: Tensor, temperature: float) -> Tensor:
        return _mask(logit, v, temperature)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.temperature = inputs[2]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None]:
        (g,) = gradients
        logit, v = ctx.saved_tensors
        s = _slope(logit, v, ctx.temperature)
        covariance = ((g[::2] - g[1::2]) * (s[::2] - s[1::2])).sum()
        mean = g.sum() * mean_slope(logit, ctx.temperature).to(g.dtype)
        return (covariance + mean).reshape(logit.shape), None, None


def mean_slope(logit: Tensor, temperature: float) -> Tensor:
    """E[∂m/∂φ], an integral over logistic noise: near 0, as masks have a mean near 1."""
    v = torch.linspace(-40.0, 40.0, 4001, dtype=torch.float64, device=logit.device)
    density = torch.sigmoid(v) * torch.sigmoid(-v)
    return (_slope(logit.double().reshape(()), v, temperature) * density).sum() * (v[1] - v[0])


def _mask(logit: Tensor, v: Tensor, temperature: float) -> Tensor:
    return torch.sigmoid((logit + v) / temperature) / torch.sigmoid(logit)


def _slope(logit: Tensor, v: Tensor, temperature: float) -> Tensor:
    """∂m/∂φ; a channel is kept by z, and m = z/keep."""
    z, keep = torch.sigmoid((logit + v) / temperature), torch.sigmoid(logit)
    return (z * (1 - z) / temperature - z * torch.sigmoid(-logit)) / keep
