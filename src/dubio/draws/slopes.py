"""Gradients of a recording, and whether they are those of plain passes.

A tape holds operations as they are below autograd. It has the gradients of the network, unless that
has some of its own: a block without gradients, a function that declares its derivative, a value
that a later step writes over. So both are compared before a tape is trusted with gradients.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dubio.draws.trust import agree

_TRIAL = 20_230_418  # the seed of the direction in which gradients are compared


def same_slopes(
    played: Callable[[], Tensor], plain: Callable[[], Tensor], variables: Sequence[Tensor]
) -> bool:
    """Return whether two computations of the same draws have the same gradients.

    Args:
        played: Computes draws by playing a tape.
        plain: Computes them by plain passes.
        variables: By what both are differentiated, in a random direction of the draws.
    """
    expected = _slopes(plain(), variables)
    try:
        found = _slopes(played(), variables)
    except Exception:  # whatever it is, plain passes do not fail
        return False
    return all(agree(a[None], b[None]) for a, b in zip(found, expected, strict=True))


def _slopes(draws: Tensor, variables: Sequence[Tensor]) -> list[Tensor]:
    if not draws.requires_grad:
        return [torch.zeros_like(x) for x in variables]
    direction = torch.randn(draws.shape, generator=torch.Generator().manual_seed(_TRIAL))
    slopes = torch.autograd.grad(draws, variables, direction.to(draws), allow_unused=True)
    return [
        torch.zeros_like(x) if slope is None else slope
        for x, slope in zip(variables, slopes, strict=True)
    ]
