"""The semi-implicit evidence bound of a variational autoencoder with masks on its input.

With V + 1 masks z_v of one history x, η_j ~ q(η | x, z_j) and J decodings:

    f = (1/J) Σ_{j<J} [−log p(x | η_j) + β(log h(η_j) − log p(η_j))],
    h(η) = (V + 1)⁻¹ Σ_v q(η | x, z_v)

(Boluki et al. 2020, eq. 6, after Yin & Zhou 2018). The mixture h includes the mask that η was drawn
with. E f falls with V to the bound of the posterior that has its masks integrated out. The terms
j are exchangeable, so J changes the variance only: encodings of sparse rows are cheap, decodings
are not.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Normals(NamedTuple):
    """Normal distributions with independent coordinates.

    Attributes:
        mean: (…, D).
        log_variance: (…, D).
    """

    mean: Tensor
    log_variance: Tensor

    def at(self, noise: Tensor) -> Tensor:
        """Return μ + σ⊙ε."""
        return torch.addcmul(self.mean, torch.exp(0.5 * self.log_variance), noise)

    def first(self, count: int) -> "Normals":
        """Return those with the first masks, if the masks are on the first axis but two."""
        return Normals(self.mean[..., :count, :, :], self.log_variance[..., :count, :, :])


def log_mixture(eta: Tensor, components: Normals) -> Tensor:
    """Log h(η): the mean density of the masks' posteriors.

    Args:
        eta: (…, J, B, D).
        components: (…, V + 1, B, D).

    Returns:
        (…, J, B).
    """
    mean, log_variance = components.mean.unsqueeze(-4), components.log_variance.unsqueeze(-4)
    distance = (eta.unsqueeze(-3) - mean).square() * torch.exp(-log_variance)
    logs = -0.5 * (distance + log_variance + math.log(2 * math.pi)).sum(-1)  # (…, J, V + 1, B)
    return logs.logsumexp(-2) - math.log(logs.shape[-2])


def log_standard_normal(eta: Tensor) -> Tensor:  # (…, D) -> (…)
    """Log N(η; 0, I)."""
    return -0.5 * (eta.square().sum(-1) + eta.shape[-1] * math.log(2 * math.pi))


def divergence(posterior: Normals) -> Tensor:
    """Return KL(N(μ, σ²) ‖ N(0, I)) = ½ Σ (σ² + μ² − 1 − log σ²)."""  # (…, D) -> (…)
    mean, log_variance = posterior
    return 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum(-1)


def bound(nll: Tensor, divergence: Tensor, beta: float) -> Tensor:
    """Return f, averaged over decodings: (…, J, B) -> (…, B).

    Args:
        nll: −log p(x | η_j).
        divergence: log h(η_j) − log p(η_j), or its mean over η_j if that is known.
        beta: Weight of the divergence only: the likelihood keeps its own.
    """
    return (nll + beta * divergence).mean(-2)
