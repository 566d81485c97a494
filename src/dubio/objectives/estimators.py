"""Gradients for the rates of learnable Bernoulli masks.

Let z = z(u) be all masks of a pass, ℓ(z) the loss of an example, φ the logits of keeping. Each
estimator turns some passes over a batch into a loss whose value is that of the first pass, or of a
pair, and whose gradient estimates ∇E[ℓ(z)]. The gradient through the scale 1/keep of the masks is
ordinary backpropagation and exact in all of them.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from dubio.masks.learnable import (
    BinaryGate,
    Gate,
    Gated,
    LearnableBernoulli,
    reflect,
    trapezoid_gate,
    trapezoid_weight,
)
from dubio.noise.derivative import Derivative
from dubio.noise.requests import Request
from dubio.objectives.passes import Passes

Estimator = Literal[
    "trapezoid", "trapezoid_once", "corrected", "disarm_cv", "disarm", "arm", "reinforce_loo"
]


def trapezoid_once(passes: Passes) -> Tensor:
    """Return the trapezoid rule in the one pass that trains the weights: see `trapezoid_gate`."""
    return passes.only().mean()


def trapezoid(passes: Passes) -> Tensor:
    """Apply the trapezoid rule to the antithetic pair u, 1 − u; both train the weights."""
    one, other = passes.pair(trapezoid_gate, _TRAPEZOID_REFLECTED, learn=True)
    return 0.5 * (one.mean() + other.mean())


def arm(passes: Passes) -> Tensor:
    """Return (ℓ(z(1−u)) − ℓ(z(u)))·(u − ½): Boluki et al. 2020, eq. 7. Unbiased."""
    losses, difference = _two_losses(passes, _BITS_REFLECTED)
    return _with_gradients(
        losses.mean(),
        passes,
        lambda mask, u: passes.sum_over_rows(mask, difference, 0.5 - u),
    )


def disarm(passes: Passes) -> Tensor:
    """Return ½(ℓ(z) − ℓ(z̃))·(z − z̃)·σ(|φ|), z̃ = z(1−u): ARM averaged over u given z and z̃.

    Dong, Mnih and Tucker (2020). Unbiased, with lower variance than ARM.
    """
    losses, difference = _two_losses(passes, _BITS_REFLECTED)

    def weigh(mask: LearnableBernoulli, u: Tensor) -> Tensor:
        keep = passes.keep(mask)
        change = (u < keep).to(u.dtype) - (reflect(u) < keep).to(u.dtype)
        return passes.sum_over_rows(mask, difference, change) * _disarm_weight(keep, share=1.0)

    return _with_gradients(losses.mean(), passes, weigh)


def reinforce_loo(passes: Passes) -> Tensor:
    """Return ½(ℓ(z) − ℓ(z'))·(∇log p(z) − ∇log p(z')) with independent z, z'. Unbiased.

    REINFORCE with the other sample's loss as baseline; ∇_φ log p(z) = z − keep.
    """
    fresh: dict[LearnableBernoulli, Tensor] = {}

    def afresh(mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        if mask not in fresh:
            fresh[mask] = passes.uniform(noise.shape, noise)
        return Gated(fresh[mask] < keep)

    losses, difference = _two_losses(passes, afresh)

    def weigh(mask: LearnableBernoulli, u: Tensor) -> Tensor:
        keep = passes.keep(mask)
        change = (u < keep).to(u.dtype) - (fresh[mask] < keep).to(u.dtype)
        return passes.sum_over_rows(mask, difference, 0.5 * change)

    return _with_gradients(losses.mean(), passes, weigh)


def disarm_cv(passes: Passes) -> Tensor:
    """DisARM with a control variate, the first-order change of the loss. Unbiased: `_midpoint`."""
    return _midpoint(passes, share=1.0, baseline=False)


def corrected(passes: Passes) -> Tensor:
    """Apply the trapezoid rule with a correction that makes it unbiased: see `_midpoint`."""
    return _midpoint(passes, share=0.1, baseline=True)


ESTIMATORS: dict[str, Callable[[Passes], Tensor]] = {
    "trapezoid": trapezoid,
    "trapezoid_once": trapezoid_once,
    "corrected": corrected,
    "disarm_cv": disarm_cv,
    "disarm": disarm,
    "arm": arm,
    "reinforce_loo": reinforce_loo,
}
assert tuple(ESTIMATORS) == get_args(Estimator)


_BITS, _BITS_REFLECTED = BinaryGate(), BinaryGate(reflected=True)
_TRAPEZOID_REFLECTED = BinaryGate(reflected=True, trapezoid=True)


def _two_losses(passes: Passes, other: Gate) -> tuple[Tensor, Tensor]:  # (B,) each
    """Return the losses of masks z, and their excess over those of another gate, over the rows."""
    losses, others = passes.pair(_BITS, other, learn=False)
    return losses, (losses.detach() - others) / losses.shape[0]


def _with_gradients(
    loss: Tensor, passes: Passes, weigh: Callable[[LearnableBernoulli, Tensor], Tensor]
) -> Tensor:
    """Return the loss with the further gradient weight(mask, u) for logits."""
    with torch.no_grad():
        weights = [
            _by_unit(mask, site.requests[0], weigh(mask, *site.noises))
            for mask, site in passes.sites.items()
        ]
    joined: Tensor = _Joined.apply(loss, weights, *[mask.own_logit for mask in passes.sites])
    return joined


def _by_unit(mask: LearnableBernoulli, request: Request, values: Tensor) -> Tensor:  # (units,)
    """Return the sums of values over all axes but that of the units."""
    behind = len(request.shape) - 1 - request.units
    return values.sum_to_size([mask.units, *[1] * behind]).view(-1)


class _Joined(Derivative):
    @staticmethod
    def forward(ctx: Any, loss: Tensor, weights: list[Tensor], *logits: Tensor) -> Tensor:
        ctx.weights = [w.to(logit.dtype) for w, logit in zip(weights, logits, strict=True)]
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (g,) = gradients
        return g, None, *[w * g.to(w.device) for w in ctx.weights]


def _midpoint(passes: Passes, *, share: float, baseline: bool) -> Tensor:
    """Return an exactly unbiased gradient from the loss at z, at z̃, and the slope between them.

    Let A be a random subset of the units, each in it with probability ``share``, and z̃ the masks
    with u reflected for the units in A. Write s = z − z̃, which is −1, 0 or 1, and m = ½(z + z̃).
    DisARM on that subset is unbiased:

        E[½σ(|φ_k|)/share·(ℓ(z) − ℓ(z̃))·s_k] = keep_k·drop_k·E[ℓ(z_k=1) − ℓ(z_k=0)].

    Given A and m, the signs of s are independent and fair, and g = ∂ℓ/∂z at m does not depend on
    them. So the first-order change Σ_j g_j·s_j can be taken off ℓ(z) − ℓ(z̃) if its expectation,
    g_k·|s_k| for unit k, is put back:

        v_k = ½σ(|φ_k|)/share·(g_k·|s_k| + (ℓ(z) − ℓ(z̃) − Σ_j g_j·s_j)·s_k).

    What is left in the bracket is of third order in s, where around the mean mask (in place of m)
    it would be of second order. It falls like share^{3/2}, but the first term is lost for the
    units outside of A. With a ``baseline`` all units get the trapezoid's weight t_k·g_k, averaged
    over z and z̃, and those in A have it taken off again by another estimate of the same
    expectation, ½σ(|φ_k|)/share·|s_k|·½(g_k(z) + g_k(z̃)), which all but cancels their first term.
    The whole stays exactly unbiased, for a loss quadratic in the masks it is the trapezoid rule
    itself, and both passes train the weights.
    """
    zs: dict[LearnableBernoulli, Tensor] = {}
    signs: dict[LearnableBernoulli, Tensor] = {}
    middles: dict[LearnableBernoulli, Tensor] = {}

    def gated(z: Tensor, sign: Tensor, keep: Tensor) -> Gated:
        if not baseline:
            return Gated(z)
        return Gated(z, trapezoid_weight(z, keep) - sign.abs() * _disarm_weight(keep, share))

    def sampled(mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        if mask not in signs:
            zs[mask] = (noise < keep).to(noise.dtype)
            signs[mask] = zs[mask] - (reflect(noise) < keep).to(noise.dtype)
            if share < 1:
                shape = [size if i == axis else 1 for i, size in enumerate(noise.shape)]
                signs[mask] *= passes.uniform(torch.Size(shape), noise) < share
        return gated(zs[mask], signs[mask], keep)

    def flipped(mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        return gated(zs[mask] - signs[mask], signs[mask], keep)

    def middle(mask: LearnableBernoulli, keep: Tensor, noise: Tensor, axis: int) -> Gated:
        if mask not in middles:
            middles[mask] = (zs[mask] - 0.5 * signs[mask]).requires_grad_()
        return Gated(middles[mask])

    losses = passes.first(sampled)
    if not signs:  # no mask was reached
        return losses.mean()
    with torch.set_grad_enabled(baseline):
        others = passes.again(flipped)
    found = torch.autograd.grad(
        passes.again(middle).mean(), list(middles.values()), allow_unused=True
    )
    slopes = {
        mask: torch.zeros_like(signs[mask]) if slope is None else slope
        for mask, slope in zip(middles, found, strict=True)
    }
    change = {mask: -slopes[mask] * signs[mask] for mask in slopes}
    residual = passes.by_row((losses - others).detach() / len(losses), change)

    def weigh(mask: LearnableBernoulli, u: Tensor) -> Tensor:
        total = passes.sum_over_rows(mask, residual, signs[mask])
        keep = passes.keep(mask)
        slope = (slopes[mask] * signs[mask].abs()).sum_to_size(keep.shape)
        return _disarm_weight(keep, share) * (slope + total.sum_to_size(keep.shape))

    return _with_gradients(
        0.5 * (losses.mean() + others.mean()) if baseline else losses.mean(),
        passes,
        weigh,
    )


def _disarm_weight(keep: Tensor, share: float) -> Tensor:
    """Return ½σ(|φ|)/share, as σ(|φ|) is the larger of keep and drop."""
    return torch.maximum(keep, 1 - keep) * (0.5 / share)
