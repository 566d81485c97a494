"""A network whose draws are draws of Beta posteriors, and what Thompson sampling does with them."""

from collections.abc import Sequence

import numpy as np
import torch
from scipy import integrate, stats
from torch import Tensor, nn

import dubio
from dubio.noise.register import SiteNoise


class BetaArms(nn.Module):
    """Arms with posteriors Beta(a, b), whole numbers: the a-th smallest of a + b − 1 uniforms."""

    def __init__(self, posteriors: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.posteriors = tuple(posteriors)
        self.unused = nn.Parameter(torch.zeros(()))  # something to train

    def forward(self, x: Tensor) -> Tensor:  # (B, A)
        means = torch.tensor([a / (a + b) for a, b in self.posteriors])
        return means.expand(len(x), -1)


def draw_arms(module: BetaArms, noise: SiteNoise, x: Tensor) -> Tensor:  # (B, A)
    most = max(a + b - 1 for a, b in module.posteriors)
    uniform = noise.uniform(len(x), len(module.posteriors), most)
    arms = [
        uniform[:, arm, : a + b - 1].sort(-1).values[:, a - 1]
        for arm, (a, b) in enumerate(module.posteriors)
    ]
    return torch.stack(arms, 1)


dubio.register(BetaArms, draw_arms)


def thompson_probabilities(posteriors: Sequence[stats.rv_continuous]) -> np.ndarray:
    """P(arm is the best) = ∫ f_a Π_{b≠a} F_b, for independent posteriors."""
    low = min(p.ppf(1e-13) for p in posteriors)
    high = max(p.isf(1e-13) for p in posteriors)

    def density(t: float, arm: int) -> float:
        others = [p.cdf(t) for place, p in enumerate(posteriors) if place != arm]
        return float(posteriors[arm].pdf(t) * np.prod(others))

    found = [
        integrate.quad(density, low, high, args=(arm,), limit=200)[0]
        for arm in range(len(posteriors))
    ]
    assert abs(sum(found) - 1) < 1e-7
    return np.array(found)
