"""Dropout whose masks are not stored: the backward pass computes them again."""

from typing import Any, final

import torch
from torch import Tensor

from dubio.native.stream import Stream


def drop(stream: Stream, keep: float, scale: float, x: Tensor, *, apart: bool) -> Tensor:
    """Multiply x with a mask of zeros and ``scale``: (S, …).

    Args:
        stream: Where the mask comes from; every entry of a draw has a number of its own.
        keep: The probability that an entry is kept.
        scale: Its factor then.
        x: What is multiplied: the same for all draws, or with draws on its first axis.
        apart: Whether it has draws on its first axis.
    """
    if torch.is_grad_enabled() and x.requires_grad:
        dropped: Tensor = _Drop.apply(x, stream, keep, scale, apart)  # type: ignore[no-untyped-call]
        return dropped
    return stream.drop(keep, scale, x, apart=apart)


@final
class _Drop(torch.autograd.Function):
    """x ↦ x·m, whose gradient is g·m."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, stream: Stream, keep: float, scale: float, apart: bool
    ) -> Tensor:
        ctx.mask, ctx.apart = (stream, keep, scale), apart
        return stream.drop(keep, scale, x, apart=apart)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        of_x = drop(*ctx.mask, *gradients, apart=True)
        return of_x if ctx.apart else of_x.sum(0), None, None, None, None
