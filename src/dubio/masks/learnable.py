"""Learnable Bernoulli masks: truly binary, with learned rates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from dubio.masks.mask import LearnedRate, learned_bernoulli_kl
from dubio.noise.vectorised import vectorised


class Gated(NamedTuple):
    """Zeros and ones, and how they are declared to depend on the logits: dz/dφ, or None."""

    z: Tensor
    derivative: Tensor | None = None


# (mask, probabilities of keeping laid out, uniform noise u, axis of the units) -> z
Gate: TypeAlias = Callable[["LearnableBernoulli", Tensor, Tensor, int], Gated]


@final
class LearnableBernoulli(LearnedRate):
    """Dropout with learned rates: z/keep, z = 1[u < keep], keep = σ(φ) (paper 000 section 2.1).

    In any training loop ``loss.backward()`` gives φ a gradient: by the trapezoid rule, see
    `trapezoid_gate`, and exactly through the scale 1/keep. `dubio.ELBO` offers unbiased estimators.
    """

    distribution = "uniform"

    def multiplier(self, noise: Tensor, axis: int) -> Tensor:
        """The binary mask over its rate of keeping."""
        return self.multiply([torch.ones_like(noise)], noise, axis)[0]

    def multiply(self, xs: list[Tensor], noise: Tensor, axis: int) -> list[Tensor]:
        """x·z/keep, in one step of the automatic differentiation."""
        logit = self.logit_along(noise, axis)
        gated = _gate.get()(self, torch.sigmoid(logit.detach()), noise, axis)
        if vectorised():
            return _masked_over(xs, logit, *gated)
        return [_MaskOver.apply(x, logit, *gated) for x in xs]  # type: ignore[no-untyped-call]

    def kl(self, squared_norms: Tensor, length_scale: float, fan_out: int) -> Tensor:
        """Σ_k ℓ²‖W_k‖²/(2·keep_k) − H(keep_k) (paper 000 section 2.2, with keep_k = σ(α_k))."""
        return learned_bernoulli_kl(squared_norms, self.logit, length_scale)


def trapezoid_gate(mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
    """The mask z = 1[u < keep] with the gradient of the trapezoid rule, from one pass.

    For one unit, all others held fixed, the exact gradient of E[ℓ(z)] is
    keep·drop·(ℓ(1) − ℓ(0)). With g = ∂ℓ/∂z, which backpropagation yields at the sampled z,
    ℓ(1) − ℓ(0) ≈ ½(g(0) + g(1)): the trapezoid rule, exact if ℓ is quadratic in the mask. Since
    z = 1 comes with probability keep, weighting g(z) by

        dz/dφ := ½·drop if z = 1, ½·keep if z = 0

    has just that expectation: keep·½·drop·g(1) + drop·½·keep·g(0). The bias is of third order in
    the mask.
    """
    z = (noise < keep).to(noise.dtype)
    return Gated(z, trapezoid_weight(z, keep))


def trapezoid_weight(z: Tensor, keep: Tensor) -> Tensor:
    """½·drop where z = 1, ½·keep where z = 0."""
    return torch.addcmul(0.5 * keep, z, 0.5 - keep)


def _masked_over(
    xs: list[Tensor], logit: Tensor, z: Tensor, derivative: Tensor | None
) -> list[Tensor]:
    """The same as `_MaskOver`, by automatic differentiation, which `torch.func` can follow."""
    if derivative is not None:
        z = z + derivative * (logit - logit.detach())  # z, with this derivative
    multiplier = z * (1 + torch.exp(-logit))
    return [(x * multiplier).to(x.dtype) for x in xs]


class _MaskOver(torch.autograd.Function):
    """y = x·z/keep for binary z.

    With keep = σ(φ), ∂y/∂φ = −drop·y through the scale, and x/keep·dz/dφ through z.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, logit: Tensor, z: Tensor, derivative: Tensor | None) -> Tensor:
        scale = 1 + torch.exp(-logit)  # 1/keep
        y = (x * z).mul_(scale) if x.shape == z.shape else x * (z * scale)
        y = y.to(x.dtype)
        ctx.save_for_backward(x, y, z, logit, derivative)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        x, y, z, logit, derivative = ctx.saved_tensors
        (g,) = gradients
        scale = 1 + torch.exp(-logit)
        for_x, for_logit, for_z, _ = ctx.needs_input_grad
        of_x = (g * z * scale).to(x.dtype) if for_x else None
        of_logit = None
        if for_logit:
            of_logit = (g * y).sum_to_size(scale.shape) * (1 / scale - 1)
            if derivative is not None:
                of_logit = of_logit + (g * x * derivative).sum_to_size(scale.shape) * scale
        of_z = ((g * x).sum_to_size(z.shape) * scale) if for_z else None
        return of_x, of_logit, of_z, None


_gate: ContextVar[Gate] = ContextVar("gate", default=trapezoid_gate)


@contextmanager
def gated(gate: Gate) -> Iterator[None]:
    """Let learnable masks turn their noise into zeros and ones by another rule."""
    token = _gate.set(gate)
    try:
        yield
    finally:
        _gate.reset(token)
