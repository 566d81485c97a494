"""Masks whose noise is not stored: the backward pass computes them again.

`kernels/masks.h` has the formulas. Here they become functions with derivatives, by two calls of the
kernels for each tensor: x·m on the way there, and g·m with Σ g·x·dm/dφ on the way back. A mask that
is laid over more entries than its own is made by itself first, and made again on the way back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.autograd import forward_ad

from dubio.native.library import LOADED, MaskDescription
from dubio.native.stream import Stream, usable

BERNOULLI, CONCRETE, GAUSSIAN = range(3)
_BYTES = 4  # of an entry


@final
@dataclass(frozen=True, slots=True)
class MaskRule:
    """What a mask makes of its noise.

    Attributes:
        kind: `BERNOULLI`, from probabilities of keeping; `CONCRETE` or `GAUSSIAN`, from logits.
        temperature: Of a Concrete mask.
        reflected: Whether the noise is 1 − u in place of u.
        trapezoid: Whether the derivative of a Bernoulli mask by its logits is that of the trapezoid
            rule, or that of its scale 1/keep alone.
    """

    kind: int
    temperature: float = 0.0
    reflected: bool = False
    trapezoid: bool = False


@final
@dataclass(frozen=True, slots=True)
class Masking:
    """A mask: its noise, and what it makes of it.

    Attributes:
        stream: The noise, one number for every entry of the mask in order.
        shape: That of the mask, units last; it is laid over x.
        rules: One for all entries; or one for each half of them, which have the same noise.
        logit: By what the mask is differentiated, by unit.
        rates: What the rules ask for, by unit, without a graph.
        by_torch: x times the mask by operations of torch, from x and the logits.
    """

    stream: Stream
    shape: torch.Size
    rules: tuple[MaskRule, ...]
    logit: Tensor
    rates: Tensor
    by_torch: Callable[[Tensor, Tensor], Tensor]


def serves(x: Tensor) -> bool:
    """Return whether the kernels may take over from torch: nothing looks at what is done to x."""
    if not usable(x) or torch._C._are_functorch_transforms_active():
        return False
    return forward_ad._current_level < 0


def multiply(x: Tensor, masking: Masking) -> Tensor:
    """Multiply x by a mask."""
    logit = masking.logit
    if torch.is_grad_enabled() and (x.requires_grad or logit.requires_grad):
        masked: Tensor = _Masked.apply(x, logit, masking)  # type: ignore[no-untyped-call]
        return masked
    return product(x, masking)


@final
class _Masked(torch.autograd.Function):
    """(x, φ) ↦ x·m, with the gradients g·m and Σ_rows g·x·dm/dφ."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, logit: Tensor, masking: Masking) -> Tensor:
        ctx.masking = masking
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, logit)
        return product(x, masking)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        x, logit = ctx.saved_tensors
        (g,) = gradients
        masking, wanted = ctx.masking, ctx.needs_input_grad[:2]
        if torch.is_grad_enabled() or not serves(g):
            if x is None:
                return masking.by_torch(g, logit), None, None
            return *_by_torch(masking, x, logit, g, wanted), None
        if g.shape == masking.shape:
            return *slopes(x, g, masking, wanted), None
        of_x = product(g, masking) if wanted[0] else None
        of_logit = None
        if wanted[1]:
            of_mask = (g * x).sum_to_size(masking.shape)
            of_logit = slopes(None, of_mask, masking, (False, True))[1]
        return of_x, of_logit, None


def _by_torch(
    masking: Masking, x: Tensor, logit: Tensor, g: Tensor, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients with a graph of their own, or for many g at once."""
    further = torch.is_grad_enabled()
    with torch.enable_grad():
        y = masking.by_torch(x, logit)
    inputs = [each for each, asked in zip((x, logit), wanted, strict=True) if asked]
    found = iter(torch.autograd.grad(y, inputs, g, create_graph=further))
    of_x, of_logit = (next(found) if asked else None for asked in wanted)
    return of_x, of_logit


def product(x: Tensor, masking: Masking) -> Tensor:
    """x·m, without a graph."""
    if x.shape == masking.shape:
        return _forward(x, masking)
    return x * _forward(None, masking)


def _forward(x: Tensor | None, masking: Masking) -> Tensor:
    assert LOADED is not None
    out = torch.empty(masking.shape, dtype=torch.float32, device="cpu")
    given = None if x is None else x.contiguous()
    stream, rates, threads = masking.stream, masking.rates, torch.get_num_threads()
    count = out.numel() // len(masking.rules)
    for half, rule in enumerate(masking.rules):
        offset = half * count * _BYTES
        LOADED.dubio_masked(
            _description(rule, rates), stream.key, stream.first, 1, count,
            None if given is None else given.data_ptr() + offset, 0, out.data_ptr() + offset,
            threads,
        )  # fmt: skip
    return out


def slopes(
    x: Tensor | None, g: Tensor, masking: Masking, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """g·m and Σ_rows g·x·dm/dφ, each if it is wanted, for g of the shape of the mask."""
    assert LOADED is not None
    for_x, for_logit = wanted
    of_x = torch.empty(g.shape, dtype=torch.float32, device="cpu") if for_x else None
    rules, rates, stream = masking.rules, masking.rates, masking.stream
    sums = (
        torch.empty((len(rules), *rates.shape), dtype=torch.float32, device="cpu")
        if for_logit
        else None
    )
    g, given = g.contiguous(), None if x is None else x.contiguous()
    count = g.numel() // len(rules)
    for half, rule in enumerate(rules):
        offset = half * count * _BYTES
        LOADED.dubio_masked_backward(
            _description(rule, rates), stream.key, stream.first, count,
            None if given is None else given.data_ptr() + offset, g.data_ptr() + offset,
            None if of_x is None else of_x.data_ptr() + offset,
            None if sums is None else sums.data_ptr() + half * rates.numel() * _BYTES,
            torch.get_num_threads(),
        )  # fmt: skip
    if sums is None:
        return of_x, None
    return of_x, sums[0] if len(rules) == 1 else sums.sum(0)


def _description(rule: MaskRule, rates: Tensor) -> MaskDescription:
    return MaskDescription(
        rates.data_ptr(), 0.0, 0.0, rates.numel(), rule.temperature, rule.kind, rule.reflected,
        rule.trapezoid,
    )  # fmt: skip
