"""Masks on the entries of sparse rows, and gradients for their rates.

The loss of a history depends on all its masks z_0 … z_V. So the whole stack of noise is reflected,
u → 1 − u, with all other noise in common, and both passes train the weights.
"""

import copy
from typing import Literal, TypeAlias, TypeVar

from torch import Tensor, nn

from dubio.masks import LearnableBernoulli, Mask
from dubio.recommend.sparse import SparseRows

RateEstimator: TypeAlias = Literal["trapezoid", "trapezoid_once", "arm"]
AnyModule = TypeVar("AnyModule", bound=nn.Module)


def multiplier(mask: Mask, rows: SparseRows, noises: tuple[Tensor, ...]) -> Tensor:
    """Compute a mask with a rate per item from noise per entry.

    Its gradient is the mask's own: pathwise, or by the trapezoid rule for `LearnableBernoulli`.
    Rates of items that are in no row get a gradient of exactly zero.

    Args:
        mask: With ``units`` of 1 or the number of items.
        rows: The entries.
        noises: Those of the mask.  # (S, N) each

    Returns:
        (S, N).
    """
    if mask.units == 1:
        return mask.multiplier(noises[0].dim() - 1, *noises)
    return _of_entries(mask, rows.items).multiplier(noises[0].dim() - 1, *noises)


def keep_of_entries(mask: Mask, rows: SparseRows) -> Tensor:
    """Return the probability of keeping each entry."""  # (N,) or (1,)
    return mask.keep if mask.units == 1 else mask.keep.index_select(0, rows.items)


def _of_entries(module: AnyModule, items: Tensor) -> AnyModule:
    """Return a mask with the parameters of each entry's item.

    It is another object, with dicts of its own: other threads may be using the mask.
    """
    found = copy.copy(module)
    for kind in ("_parameters", "_buffers"):
        found.__dict__[kind] = {
            name: None if values is None else values.index_select(0, items)
            for name, values in module.__dict__[kind].items()
        }
    found.__dict__["_modules"] = {
        name: None if child is None else _of_entries(child, items)
        for name, child in module.__dict__["_modules"].items()
    }
    return found


def path_multiplier(mask: LearnableBernoulli, rows: SparseRows, noise: Tensor) -> Tensor:
    """Return 1[u < keep]/keep with the gradient through 1/keep only."""  # (S, N)
    keep = keep_of_entries(mask, rows)
    return (noise < keep.detach()) / keep


def reflected(noise: Tensor) -> Tensor:  # (V + 1, N)
    """Return 1 − u for the masks of all components."""
    return 1 - noise


def with_arm(losses: Tensor, mask: LearnableBernoulli, rows: SparseRows, noise: Tensor) -> Tensor:
    """Return the mean loss of both passes, with ARM's gradient for the logits φ of keeping.

    For an item of the history it is Σ_v (f(1−u) − f(u))·(u_v − ½) (Boluki et al. 2020, eq. 7, for
    all masks at once). The sum over items of others in the batch has no part in it.

    Args:
        losses: f(u) and f(1 − u).  # (2, B)
        mask: Whose logits they are.
        rows: The entries.
        noise: u.  # (V + 1, N)

    Returns:
        (B,).
    """
    difference = (losses[1] - losses[0]).detach()  # (B,)
    slopes = difference[rows.row] * (noise - 0.5).sum(0)  # (N,)
    logit = mask.logit if mask.units == 1 else mask.logit.index_select(0, rows.items)
    linear = losses.new_zeros(len(rows)).index_add(0, rows.row, slopes * logit)
    return losses.mean(0) + (linear - linear.detach())  # the value stays, the gradient is added
