"""Learnable Bernoulli masks: truly binary, with learned rates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from dubio.masks.mask import LearnedRate, bernoulli_entropy, bernoulli_kl

# (mask, its logits laid out, uniform noise u, axis of the units) -> z
Gate: TypeAlias = Callable[["LearnableBernoulli", Tensor, Tensor, int], Tensor]


@final
class LearnableBernoulli(LearnedRate):
    """Dropout with learned rates: z/keep, z = 1[u < keep], keep = σ(φ) (paper 000 section 2.1).

    In any training loop ``loss.backward()`` gives φ a gradient: by the trapezoid rule, see
    `trapezoid_gate`, and exactly through the scale 1/keep. `dubio.ELBO` offers unbiased estimators.
    """

    distribution = "uniform"

    def multiplier(self, noise: Tensor, axis: int) -> Tensor:
        """The binary mask over its rate of keeping."""
        logit = self.logit_along(noise, axis)
        return _gate.get()(self, logit, noise, axis) / torch.sigmoid(logit)

    def kl(self, squared_norms: Tensor, length_scale: float, fan_out: int) -> Tensor:
        """Σ_k ℓ²‖W_k‖²/(2·keep_k) − H(keep_k) (paper 000 section 2.2, with keep_k = σ(α_k))."""
        entropy = bernoulli_entropy(self.logit).expand(len(squared_norms)).sum()
        return bernoulli_kl(squared_norms, self.keep, length_scale) - entropy


def trapezoid_gate(mask: LearnableBernoulli, logit: Tensor, noise: Tensor, axis: int) -> Tensor:
    """The mask z = 1[u < σ(φ)] with the gradient of the trapezoid rule, from one pass.

    For one unit, all others held fixed, the exact gradient of E[ℓ(z)] is
    keep·drop·(ℓ(1) − ℓ(0)). With g = ∂ℓ/∂z, which backpropagation yields at the sampled z,
    ℓ(1) − ℓ(0) ≈ ½(g(0) + g(1)): the trapezoid rule, exact if ℓ is quadratic in the mask. Since
    z = 1 comes with probability keep, weighting g(z) by

        dz/dφ := ½·drop if z = 1, ½·keep if z = 0

    has just that expectation: keep·½·drop·g(1) + drop·½·keep·g(0). The bias is of third order in
    the mask.
    """
    keep = torch.sigmoid(logit.detach())
    kept = noise < keep
    return with_derivative(kept.to(noise.dtype), logit, trapezoid_weight(kept, keep))


def trapezoid_weight(kept: Tensor, keep: Tensor) -> Tensor:
    """½·drop where a unit is kept, ½·keep where it is dropped."""
    return torch.where(kept, 0.5 * (1 - keep), 0.5 * keep)


def with_derivative(z: Tensor, logit: Tensor, derivative: Tensor) -> Tensor:
    """The values z, declared to depend on the logits by this derivative."""
    declared: Tensor = _Declared.apply(logit.expand_as(z), z, derivative)  # type: ignore[no-untyped-call]
    return declared


class _Declared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logit: Tensor, z: Tensor, derivative: Tensor) -> Tensor:
        ctx.save_for_backward(derivative)
        return z

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None]:
        (derivative,) = ctx.saved_tensors
        return gradients[0] * derivative, None, None


_gate: ContextVar[Gate] = ContextVar("gate", default=trapezoid_gate)


@contextmanager
def gated(gate: Gate) -> Iterator[None]:
    """Let learnable masks turn their noise into zeros and ones by another rule."""
    token = _gate.set(gate)
    try:
        yield
    finally:
        _gate.reset(token)
