"""The noise of one pass over some users: a function of the seeds of the users."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dubio.masks import Mask
from dubio.recommend.keyed_noise import Seeds, hashed, normal, uniform
from dubio.recommend.sparse import SparseRows

_NUMBERS = {"uniform": uniform, "normal": normal}


class StepNoise(NamedTuple):
    """All noise of a pass.

    Attributes:
        masks: For each entry, by the noises that the mask is made of.  # (V + 1, N) each
        latent: ε.  # (J, B, D)
        component: Uniform numbers that choose among the components of a prior.  # (B,)
    """

    masks: tuple[Tensor, ...]
    latent: Tensor
    component: Tensor


def check_noises(mask: Mask) -> None:
    """Raise an error unless each history can have its own such mask."""
    if not all(each.per_row for each in mask.noises):
        raise ValueError(
            f"mask: expected noise of its own for each row, got {type(mask).__name__}, whose rows "
            "share some; use masks.LearnableBernoulli"
        )


def step_noise(
    rows: SparseRows,
    seeds: Seeds,
    mask: Mask | None,
    *,
    mixture: int = 1,
    decodings: int = 1,
    latent: int = 0,
) -> StepNoise:
    """Noise that depends on the seed of a user and on the item, and on nothing else of the batch.

    Args:
        rows: Histories.
        seeds: Those of their users.  # (B,)
        mask: Whose noise to draw.
        mixture: V + 1.
        decodings: J.
        latent: D.
    """
    own = hashed(seeds, 0)
    epsilon = normal(own[:, None], np.arange(decodings * latent))  # (B, J·D)
    row, items = rows.row.numpy(), rows.items.numpy()
    kinds = [] if mask is None else [_NUMBERS[each.distribution] for each in mask.noises]
    masks = [
        torch.stack(
            [
                draw(hashed(seeds, 1 + component * len(kinds) + kind)[row], items)
                for component in range(mixture)
            ]
        )
        for kind, draw in enumerate(kinds)
    ]
    return StepNoise(
        tuple(masks),
        epsilon.view(len(rows), decodings, latent).transpose(0, 1).contiguous(),
        uniform(own, decodings * latent),
    )
