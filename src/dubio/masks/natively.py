"""Masks by the kernels: no noise is stored, and none for the backward pass."""

from collections.abc import Callable, Sequence

from torch import Tensor

from dubio.native.masked import Masking, MaskRule, serves
from dubio.native.stream import usable
from dubio.noise.undrawn import Undrawn


def native_masking(
    xs: Sequence[Tensor],
    axis: int,
    noise: Tensor | Undrawn,
    rules: tuple[MaskRule, ...],
    logit: Tensor,
    rates: Tensor,
    by_torch: Callable[[Tensor, Tensor], Tensor],
) -> Masking | None:
    """Return a mask as the kernels multiply tensors by it; None where torch has to do it.

    Args:
        xs: The tensors.
        axis: The axis of the units.
        noise: The noise of the mask.
        rules: What the mask makes of it: one for all rows, or one for each half of them; none if
            the kernels do not know.
        logit: By what the mask is differentiated, by unit.
        rates: What the rules ask for, by unit.
        by_torch: x times the mask by operations of torch, from x and the logits.
    """
    if not (rules and isinstance(noise, Undrawn)):
        return None
    if not (serves(xs[0]) and all(map(usable, (*xs[1:], rates)))):
        return None
    if len(rates) > 1 and noise.shape[axis + 1 :].numel() > 1:  # units are not the last
        return None
    if noise.twice_on is not None:
        if noise.shape[: noise.twice_on].numel() > 1:  # halves do not lie one behind the other
            return None
        rules = rules if len(rules) == 2 else rules * 2
    elif len(rules) > 1:
        return None
    return Masking(noise.stream, noise.shape, rules, logit, rates, by_torch)
