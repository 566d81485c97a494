"""Learnable Bernoulli masks: truly binary, with learned rates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from dubio.masks.mask import (
    LearnedRate,
    along,
    learned_bernoulli_kl,
)
from dubio.masks.natively import native_masking
from dubio.native.masked import BERNOULLI, Masking, MaskRule, multiply
from dubio.noise.derivative import Derivative
from dubio.noise.run import current_pass
from dubio.noise.undrawn import Undrawn, drawn


class Gated(NamedTuple):
    """Zeros and ones, and how they are declared to depend on the logits.

    Attributes:
        z: The zeros and ones.
        derivative: dz/dφ; or ``trapezoid`` for that of `trapezoid_gate`, which takes less time.
    """

    z: Tensor
    derivative: Tensor | Literal["trapezoid"] | None = None


# (mask, probabilities of keeping laid out, uniform noise u, axis of the units) -> z
Gate: TypeAlias = Callable[["LearnableBernoulli", Tensor, Tensor, int], Gated]


@final
class LearnableBernoulli(LearnedRate):
    """Dropout with learned rates: z/keep, z = 1[u < keep], keep = σ(φ).

    Boluki et al. 2020, section 2.1.

    In any training loop ``loss.backward()`` gives φ a gradient: by the trapezoid rule, see
    `trapezoid_gate`, and exactly through the scale 1/keep. `dubio.ELBO` offers unbiased estimators.
    """

    kl_is_known = True

    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """Return the binary mask divided by keep."""
        return self.multiply([torch.ones_like(noises[0])], axis, *noises)[0]

    def multiply(self, xs: list[Tensor], axis: int, *noises: Tensor | Undrawn) -> list[Tensor]:
        """x·z/keep, in one step of the automatic differentiation."""
        masking = self.masking(xs, axis, *noises)
        if masking is not None:
            return [multiply(x, masking) for x in xs]
        return self._multiply(xs, self.own_logit, self._gate(), drawn(noises[0]), axis)

    def masking(self, xs: list[Tensor], axis: int, *noises: Tensor | Undrawn) -> Masking | None:
        """Return the mask as the kernels multiply tensors by it, if they know its gate."""
        (noise,), gate, running = noises, self._gate(), current_pass()
        memory: dict[Any, Tensor] = {} if running is None else running.memory
        if running is not None and running.gate is not None:
            running.meet_mask(xs[0])
        rules = _rules(gate)
        if not rules:
            return None

        def by_torch(x: Tensor, logit: Tensor) -> Tensor:
            return self._multiply([x], logit, gate, drawn(noise), axis)[0]

        logit, keep = self.own_logit, memory.get(self)
        if keep is None:
            keep = memory[self] = torch.sigmoid(logit.detach())
        return native_masking(xs, axis, noise, rules, logit, keep, by_torch)

    def _gate(self) -> Gate:
        """Return the gate of the pass, or the trapezoid's."""
        running = current_pass()
        return trapezoid_gate if running is None or running.gate is None else running.gate

    def _multiply(
        self, xs: list[Tensor], logit: Tensor, gate: Gate, u: Tensor, axis: int
    ) -> list[Tensor]:
        logit = along(logit, u, axis)
        keep = torch.sigmoid(logit.detach())
        gated = gate(self, keep, u, axis)
        if torch.is_grad_enabled():
            return [_MaskOver.apply(x, logit, keep, *gated) for x in xs]
        return [_MaskOver.forward(x, logit, keep, *gated) for x in xs]

    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Return Σ_k ℓ²‖W_k‖²/(2·keep_k) − H(keep_k).

        Boluki et al. 2020, section 2.2, with keep_k = σ(α_k).
        """
        return learned_bernoulli_kl(weights, self.logit, length_scale)


@final
@dataclass(frozen=True)
class BinaryGate:
    """The gate z = 1[u < keep], which the kernels know as well.

    Attributes:
        reflected: Whether it takes the noise 1 − u in place of u.
        trapezoid: Whether it has the gradient of the trapezoid rule, see `trapezoid_gate`, or none.
    """

    reflected: bool = False
    trapezoid: bool = False

    def __call__(self, mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        """Return the zeros and ones."""
        u = reflect(noise) if self.reflected else noise
        return Gated(u < keep, "trapezoid" if self.trapezoid else None)


@final
@dataclass(frozen=True)
class HalvesGate:
    """One gate for the first half of the rows, another for the second, from the same noise."""

    one: Gate
    other: Gate

    def __call__(self, mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        """Return the zeros and ones of both."""
        half = noise[: noise.shape[0] // 2]
        one, other = (gate(mask, keep, half, axis) for gate in (self.one, self.other))
        return Gated(torch.cat([one.z, other.z]), one.derivative)


def reflect(u: Tensor) -> Tensor:
    """Return 1 − u as uniform numbers in [0, 1) again: all bits of u the other way round."""
    return (1 - (2.0**-32 if u.dtype == torch.float64 else 2.0**-24)) - u


def _rules(gate: Gate) -> tuple[MaskRule, ...]:
    """Return the kernel rule of a gate; None if there is none."""
    match gate:
        case BinaryGate():
            return (MaskRule(BERNOULLI, reflected=gate.reflected, trapezoid=gate.trapezoid),)
        case HalvesGate(BinaryGate() as one, BinaryGate() as other):
            return _rules(one) + _rules(other)
        case _:
            return ()


# For one unit, all others held fixed, the exact gradient of E[ℓ(z)] is keep·drop·(ℓ(1) − ℓ(0)).
# With g = ∂ℓ/∂z, which backpropagation yields at the sampled z, ℓ(1) − ℓ(0) ≈ ½(g(0) + g(1)): the
# trapezoid rule, exact if ℓ is quadratic in the mask. Since z = 1 comes with probability keep,
# weighting g(z) by
#
#     dz/dφ := ½·drop if z = 1, ½·keep if z = 0
#
# has just that expectation: keep·½·drop·g(1) + drop·½·keep·g(0). The bias is of third order in the
# mask.
trapezoid_gate = BinaryGate(trapezoid=True)


def trapezoid_weight(z: Tensor, keep: Tensor) -> Tensor:
    """Return ½·drop where z = 1, ½·keep where z = 0."""
    return torch.addcmul(0.5 * keep, z, 0.5 - keep)


class _MaskOver(Derivative):
    """y = x·z/keep for binary z.

    With keep = σ(φ), ∂y/∂φ = −drop·y through the scale, and x/keep·dz/dφ through z. With the
    trapezoid's dz/dφ both together are ½(x − y).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor, logit: Tensor, keep: Tensor, z: Tensor, derivative: Tensor | str | None
    ) -> Tensor:
        y = x * (z / keep)
        return y if y.dtype == x.dtype else y.to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, logit, keep, z, derivative = inputs
        ctx.trapezoid = isinstance(derivative, str)
        given = None if ctx.trapezoid else derivative
        ctx.save_for_backward(x, output, logit, keep, z, given)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        x, y, logit, keep, z, derivative = ctx.saved_tensors
        (g,) = gradients
        if torch.is_grad_enabled():  # to be differentiated once more
            keep = torch.sigmoid(logit)
        for_x, for_logit, _, for_z, _ = ctx.needs_input_grad
        of_x = of_logit = of_z = None
        if for_x:
            of_x = g * (z / keep)
            of_x = of_x if of_x.dtype == x.dtype else of_x.to(x.dtype)
        if for_logit and ctx.trapezoid:
            of_logit = (g * (x - y)).sum_to_size(keep.shape) * 0.5
        elif for_logit:
            of_logit = (g * y).sum_to_size(keep.shape) * (keep - 1)
            if derivative is not None:
                of_logit = of_logit + (g * x * derivative).sum_to_size(keep.shape) / keep
        if for_z:
            of_z = (g * x).sum_to_size(z.shape) / keep
        return of_x, of_logit, None, of_z, None
