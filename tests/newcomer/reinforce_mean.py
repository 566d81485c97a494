"""REINFORCE with the loss of the mean network as its baseline."""

import torch
from torch import Tensor

from dubio.masks.learnable import BinaryGate, Gated, LearnableBernoulli
from dubio.objectives.estimators import _with_gradients
from dubio.objectives.passes import Passes


def reinforce_mean(passes: Passes) -> Tensor:
    """(ℓ(z) − ℓ(keep))·∇log p(z), ∇_φ log p(z) = z − keep. Unbiased: E[∇log p(z)] = 0."""
    losses = passes.first(BinaryGate())
    with torch.no_grad():
        baseline = passes.again(lambda mask, keep, noise, axis: Gated(keep))
        difference = (losses - baseline) / len(losses)

    def weigh(mask: LearnableBernoulli, u: Tensor) -> Tensor:
        keep = passes.keep(mask)
        return passes.sum_over_rows(mask, difference, (u < keep).to(u.dtype) - keep)

    return _with_gradients(losses.mean(), passes, weigh)
