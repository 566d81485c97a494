"""Priors and posteriors of the latent vector that are more than a normal distribution."""

import math
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dubio.noise.float64 import in_float64
from dubio.recommend.bound import Normals


@final
class VampPrior(nn.Module):
    """p(η) = K⁻¹ Σ_k q(η | s_k) with learned pseudo-inputs s_k (Tomczak & Welling 2018, eq. 9).

    Args:
        count: K.
        num_items: The length of a pseudo-input.
    """

    def __init__(self, count: int, num_items: int) -> None:
        super().__init__()
        self.inputs = nn.Parameter(torch.zeros(count, num_items))

    @staticmethod
    def log_density(eta: Tensor, components: Normals) -> Tensor:  # (…, D), (K, D) -> (…)
        """Log p(η).

        The squared distances are expanded into products of matrices, in double precision because
        of their differences.
        """
        eta, mean = in_float64(eta), in_float64(components.mean)
        log_variance = in_float64(components.log_variance)
        precision = torch.exp(-log_variance)
        distance = (
            eta.square() @ precision.t()
            - 2 * eta @ (mean * precision).t()
            + (mean.square() * precision).sum(-1)
        )  # (…, K)
        normaliser = (log_variance + math.log(2 * math.pi)).sum(-1)
        logs = -0.5 * (distance + normaliser)
        return (logs.logsumexp(-1) - math.log(len(mean))).to(components.mean)


@final
class AutoregressiveLinear(nn.Linear):
    """A linear layer some of whose weights are zero for good."""

    def __init__(self, allowed: Tensor) -> None:  # (out, in)
        super().__init__(allowed.shape[1], allowed.shape[0], device="meta")
        self.to_empty(device="cpu")
        self.allowed: Tensor
        self.register_buffer("allowed", allowed.to(self.weight.dtype), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return F.linear(x, self.weight * self.allowed, self.bias)


@final
class AutoregressiveFlow(nn.Module):
    """Inverse autoregressive flow: η′ = s⊙η + (1 − s)⊙m (Kingma et al. 2016, eqs. 10–13).

    s and m of a coordinate are functions of the coordinates before it: a MADE with one hidden layer
    (Germain et al. 2015). They do not look at the history, so that all masks of a history share the
    flow, and the density of their mixture is exact.

    Args:
        latent: D.
        steps: How many flows, each in the order opposite to that before.
        hidden: Units of a MADE.
    """

    def __init__(self, latent: int, steps: int = 2, hidden: int = 400) -> None:
        super().__init__()
        place = torch.arange(latent)
        unit = torch.arange(hidden) % max(1, latent - 1)  # sees the coordinates up to this one
        into = unit[:, None] >= place  # (hidden, D)
        out = (place[:, None] > unit).repeat(2, 1)  # (2D, hidden)
        self.first = nn.ModuleList(AutoregressiveLinear(into) for _ in range(steps))
        self.second = nn.ModuleList(AutoregressiveLinear(out) for _ in range(steps))

    def forward(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the flow.

        Args:
            eta: (…, D).

        Returns:
            η′, (…, D), and log |∂η′/∂η| = Σ log s, (…).
        """
        total = eta.new_zeros(eta.shape[:-1])
        for first, second in zip(self.first, self.second, strict=True):
            shift, gate = second(torch.tanh(first(eta))).chunk(2, -1)
            log_scale = F.logsigmoid(gate + 2)  # starts near the identity
            eta = (shift + (eta - shift) * log_scale.exp()).flip(-1)
            total = total + log_scale.sum(-1)
        return eta, total
