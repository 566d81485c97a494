"""Learnable Bernoulli masks: truly binary, with learned rates."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, final

import torch
from torch import Tensor

from dubio.masks.mask import LearnedRate, bernoulli_entropy, bernoulli_kl

_local_gradient: ContextVar[bool] = ContextVar("local_gradient", default=True)


@contextmanager
def without_local_gradient() -> Iterator[None]:
    """Let thresholds have no gradient, for estimators that look at losses instead."""
    token = _local_gradient.set(False)
    try:
        yield
    finally:
        _local_gradient.reset(token)


@final
class LearnableBernoulli(LearnedRate):
    """Dropout with learned rates: z/keep, z = 1[u < keep], keep = σ(φ) (paper 000 section 2.1).

    In any training loop ``loss.backward()`` gives φ a gradient: by the trapezoid rule, see
    `Threshold`, and exactly through the scale 1/keep. `dubio.ELBO` offers unbiased estimators.
    """

    distribution = "uniform"

    def multiplier(self, noise: Tensor, axis: int) -> Tensor:
        """The binary mask over its rate of keeping."""
        logit = self.logit_along(noise, axis)
        if _local_gradient.get():
            mask: Tensor = Threshold.apply(logit.expand_as(noise), noise)  # type: ignore[no-untyped-call]
        else:
            mask = (noise < torch.sigmoid(logit)).to(noise.dtype)
        return mask / torch.sigmoid(logit)

    def kl(self, squared_norms: Tensor, length_scale: float, fan_out: int) -> Tensor:
        """Σ_k ℓ²‖W_k‖²/(2·keep_k) − H(keep_k) (paper 000 section 2.2, with keep_k = σ(α_k))."""
        entropy = bernoulli_entropy(self.logit).expand(len(squared_norms)).sum()
        return bernoulli_kl(squared_norms, self.keep, length_scale) - entropy


class Threshold(torch.autograd.Function):
    """z = 1[u < σ(φ)] with the gradient of the trapezoid rule, from one pass.

    For one unit, all others held fixed, the exact gradient of E[ℓ(z)] is
    keep·drop·(ℓ(1) − ℓ(0)). With g = ∂ℓ/∂z, which backpropagation yields at the sampled z,
    ℓ(1) − ℓ(0) ≈ ½(g(0) + g(1)): the trapezoid rule, exact if ℓ is quadratic in the mask. Since
    z = 1 comes with probability keep, weighting g(z) by

        dz/dφ := ½·drop if z = 1, ½·keep if z = 0

    has just that expectation: keep·½·drop·g(1) + drop·½·keep·g(0). The bias is of third order in
    the mask. The noise u enters only through z, which makes this the conditional expectation, and
    so lower in variance, of the rule that weighs by an antithetic pair of u.
    """

    @staticmethod
    def forward(ctx: Any, logit: Tensor, noise: Tensor) -> Tensor:
        """The binary mask."""
        keep = torch.sigmoid(logit)
        mask = noise < keep
        ctx.save_for_backward(keep, mask)
        return mask.to(noise.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        """The gradient of the mask times the weight of its value."""
        keep, mask = ctx.saved_tensors
        return gradients[0] * torch.where(mask, 1 - keep, keep) * 0.5, None
