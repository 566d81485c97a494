"""A linear layer behind a mask, with its divergence, as one step of the automatic differentiation.

For masks that the kernels know. The gradients of the divergence are added to those of the product
in one pass over the weights.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.masks.mask import learned_bernoulli_kl
from dubio.native import matmul
from dubio.native.columns import rate_divergence, walk
from dubio.native.masked import BERNOULLI, Masking, product, serves, slopes
from dubio.native.matmul import Beside
from dubio.noise.derivative import Derivative


def masked_linear(
    masking: Masking,
    length_scale: float | None,
    repeated: bool,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor | None]:  # (B, outs)
    """(x·m)Wᵀ + b, and the divergence `learned_bernoulli_kl` of W if it is asked for.

    Args:
        masking: The mask, of the shape of x.
        length_scale: That of the prior; None for no divergence.
        repeated: Whether the second half of the rows is known to be the first once more.
        x: The inputs.  # (B, ins)
        weight: W.  # (outs, ins)
        bias: b.
    """
    if torch.is_grad_enabled():
        y, total = _MaskedLinear.apply(
            masking, length_scale, repeated, x, weight, bias, masking.logit
        )
        return y, total
    return matmul.linear(product(x, masking), weight, bias), None


@final
class _MaskedLinear(Derivative):
    """(x, W, b, φ) ↦ (x·m)Wᵀ + b and the divergence of W and φ.

    With the gradient g of the outputs, that of x·m is gW, and that of W is gᵀ(x·m). The mask has
    slopes dm/dφ, and the gradient of φ is Σ_rows gW∘x∘dm/dφ. Where nobody asks for that of x, as in
    the first layer of a network, a binary mask does without gW: it has dm/dφ = −drop·m, or
    ½(1 − m) by the trapezoid rule, so that the gradient of φ is −drop·Σ W∘gᵀ(x·m), or
    ½Σ W∘(gᵀx − gᵀ(x·m)), summed over outputs.
    """

    @staticmethod
    def forward(
        ctx: Any,
        masking: Masking,
        length_scale: float | None,
        repeated: bool,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        logit: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        masked, total = product(x, masking), None
        if length_scale is not None:
            value, *ctx.slopes = rate_divergence(weight, logit, length_scale**2)
            total = torch.full((), value, dtype=torch.float32, device="cpu")
        ctx.set_materialize_grads(False)
        ctx.masking, ctx.length_scale, ctx.repeated = masking, length_scale, repeated
        needed = ctx.needs_input_grad[3] or (ctx.needs_input_grad[6] and not _only_scales(masking))
        ctx.save_for_backward(x if needed else None, masked, weight, bias, logit)
        return matmul.linear(masked, weight, bias), total

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, of_total: Tensor | None) -> tuple[Any, ...]:
        x, masked, weight, _, _ = ctx.saved_tensors
        given = [each for each in (g, of_total) if each is not None]
        if torch.is_grad_enabled() or not all(map(serves, given)):  # once more, or many at once
            return None, None, None, *_again(ctx, g, of_total)
        masking: Masking = ctx.masking
        for_x, for_weight, for_bias, for_logit = ctx.needs_input_grad[3:]
        scale = by_logit = of_x = of_bias = of_logit = sums = None
        times = 0.0
        if of_total is not None:
            (scale, by_logit), times = ctx.slopes, of_total.item()
        of_weight = torch.empty_like(weight)
        if g is None:
            walk(weight, None, None, None, scale, times, of_weight.zero_())
        else:
            g = g.contiguous()
            by_sums = for_logit and not for_x and masking.rules[0].kind == BERNOULLI
            if by_sums:
                sums = torch.empty(weight.shape[1], dtype=torch.float32, device="cpu")
            if for_bias:
                of_bias = torch.empty(len(weight), dtype=torch.float32, device="cpu")
            beside = Beside(weight, sums, scale, times)
            matmul.write_of_weight(of_weight, of_bias, g, masked, beside=beside)
            if sums is not None:
                of_logit = _of_logit(masking, ctx.repeated, sums, g, x, weight)
            elif for_x or for_logit:
                of_x, of_logit = slopes(x, matmul.of_inputs(g, weight), masking, (for_x, for_logit))
        if by_logit is not None and for_logit:
            of_logit = (
                by_logit * times if of_logit is None else of_logit.add_(by_logit, alpha=times)
            )
        return None, None, None, of_x, of_weight if for_weight else None, of_bias, of_logit


def _of_logit(
    masking: Masking, repeated: bool, sums: Tensor, g: Tensor, x: Tensor, weight: Tensor
) -> Tensor:
    """Return the gradient of φ for a binary mask, from Σ W∘gᵀ(x·m) by input."""
    if _only_scales(masking):
        return sums.sum_to_size(masking.logit.shape) * (masking.rates - 1)
    if repeated:
        half = len(x) // 2
        x, g = x[:half], g[:half] + g[half:]
    without = torch.empty_like(sums)  # Σ W∘gᵀx
    matmul.write_of_weight(None, None, g, x, beside=Beside(weight, without))
    return (without - sums).sum_to_size(masking.logit.shape) * 0.5


def _only_scales(masking: Masking) -> bool:
    """Return whether a mask depends on its logits by its scale 1/keep alone."""
    return masking.rules[0].kind == BERNOULLI and not masking.rules[0].trapezoid


def _again(ctx: Any, g: Tensor | None, of_total: Tensor | None) -> Sequence[Tensor | None]:
    """Return the gradients with a graph of their own, or many at once, by autograd."""
    x, masked, weight, bias, logit = ctx.saved_tensors
    further = torch.is_grad_enabled()
    outputs: list[tuple[Tensor, Tensor]] = []
    with torch.enable_grad():
        if g is not None:
            if x is not None:
                masked = ctx.masking.by_torch(x, logit)
            elif logit.requires_grad:
                masked = masked * (ctx.masking.rates / torch.sigmoid(logit))
            outputs.append((F.linear(masked, weight, bias), g))
        if of_total is not None:
            outputs.append((learned_bernoulli_kl(weight, logit, ctx.length_scale), of_total))
    asked = ctx.needs_input_grad[3:]
    wanted = [each for each, want in zip((x, weight, bias, logit), asked, strict=True) if want]
    values, gradients = zip(*outputs, strict=True)
    found = iter(
        torch.autograd.grad(values, wanted, gradients, create_graph=further, allow_unused=True)
    )
    return [next(found) if want else None for want in asked]
