"""Gradients for the rates of binary masks.

Let z = z(u) be all masks of a pass, ℓ(z) the loss of an example, φ the logits of keeping. Each
estimator turns losses under two sets of masks into weights v, so that Σ v·φ has the gradient
∇_φ E[ℓ(z)]. Masks are per row or shared; the weights have the shape of the noise.

The ``trapezoid`` estimator needs none of this: it is the derivative of
`dubio.masks.learnable.Threshold`, from the same pass that trains the weights.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# (difference of losses, noise, logits, noise of the second pass) -> weights
Weigh = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def arm(difference: Tensor, u: Tensor, logit: Tensor, other: Tensor) -> Tensor:
    """(ℓ(z(1−u)) − ℓ(z(u)))·(u − ½): paper 000 eq. 7. Unbiased."""
    return -difference * (u - 0.5)


def disarm(difference: Tensor, u: Tensor, logit: Tensor, other: Tensor) -> Tensor:
    """½(ℓ(z) − ℓ(z̃))·(z − z̃)·σ(|φ|), z̃ = z(1−u): ARM averaged over u given z and z̃.

    Dong, Mnih and Tucker (2020). Unbiased, with lower variance than ARM.
    """
    keep = torch.sigmoid(logit)
    change = (u < keep).to(u.dtype) - (other < keep).to(u.dtype)
    return 0.5 * difference * change * torch.sigmoid(logit.abs())


def reinforce_loo(difference: Tensor, u: Tensor, logit: Tensor, other: Tensor) -> Tensor:
    """½(ℓ(z) − ℓ(z'))·(∇log p(z) − ∇log p(z')) with independent z, z'. Unbiased.

    REINFORCE with the other sample's loss as baseline; ∇_φ log p(z) = z − keep.
    """
    keep = torch.sigmoid(logit)
    return 0.5 * difference * ((u < keep).to(u.dtype) - (other < keep).to(u.dtype))


ESTIMATORS: dict[str, Weigh] = {"arm": arm, "disarm": disarm, "reinforce_loo": reinforce_loo}
