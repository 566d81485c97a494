"""REINFORCE with the loss of the mean network as its baseline."""

import torch
from torch import Tensor

from dubio.masks.learnable import Gated, LearnableBernoulli
from dubio.objectives.estimators import _binary, _noted, _with_gradients
from dubio.objectives.passes import Passes


def reinforce_mean(passes: Passes) -> Tensor:
    """(ℓ(z) − ℓ(keep))·∇log p(z), ∇_φ log p(z) = z − keep. Unbiased: E[∇log p(z)] = 0."""
    zs: dict[LearnableBernoulli, Tensor] = {}
    losses = passes.first(_noted(_binary, zs))
    with torch.no_grad():
        baseline = passes.again(lambda mask, keep, noise, axis: Gated(keep))
        difference = (losses - baseline) / len(losses)
    return _with_gradients(
        losses.mean(),
        passes,
        lambda mask, u, keep: passes.sum_over_rows(mask, difference, zs[mask] - keep),
    )
