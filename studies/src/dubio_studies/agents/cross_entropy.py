"""The cross-entropy method: a search without gradients, for many members at once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


@torch.no_grad()
def cross_entropy(
    score: Callable[[Tensor], Tensor],
    present: Tensor,  # (M, K)
    generators: Sequence[torch.Generator],
    *,
    spread: float,
    samples: int,
    elites: int,
    rounds: int,
) -> Tensor:  # (M, K)
    """Vectors that score high: draw many, fit a Gaussian to the best, draw from it, and so on.

    Rubinstein & Kroese 2004, with a Gaussian whose components are independent. The first round
    looks both near and far: half of its vectors are N(present, spread²), the others N(0, 1). So a
    member that stands well goes on from there, and one that is stuck starts anew.

    Args:
        score: From vectors (M, S, K) to how good they are, (M, S). It may draw its own noise anew
            at every call; it must be the same for all vectors of a member. NaN is the worst.
        present: Where to start.
        generators: One for each member.
        spread: Standard deviation around what is there at first.
        samples: S.
        elites: How many of them the next Gaussian is fitted to.
        rounds: How often.
    """
    centre, deviation = present, torch.full_like(present, spread)
    for turn in range(rounds):
        noise = torch.stack(
            [torch.randn(samples, present.shape[1], generator=own) for own in generators]
        )
        drawn = centre[:, None] + deviation[:, None] * noise  # (M, S, K)
        if turn == 0:
            drawn[:, samples // 2 :] = noise[:, samples // 2 :]
        drawn[:, 0] = centre
        best = score(drawn).nan_to_num(nan=-torch.inf).topk(elites, dim=1).indices  # (M, E)
        chosen = drawn.gather(1, best[..., None].expand(-1, -1, drawn.shape[2]))
        centre, deviation = chosen.mean(1), chosen.std(1)
    return centre
