"""Clark et al. 2022, eq. 22: the curve, where it is observed and evaluated, and the networks."""

import math

import torch
from torch import Tensor, nn

import dubio
from dubio.layers.bayesian import Sampler
from dubio.likelihoods import Gaussian
from dubio.priors import Prior
from dubio_studies.clark2022.regression.published import OBSERVED

INNER_DEVIATION = 0.02  # of ε, which is also inside the sines
REGIONS = ("all", "inside", "outside")


def curve(x: Tensor, noise: Tensor) -> Tensor:
    """Eq. 22: y = x + 0.3 sin(2π(x + ε)) + 0.3 sin(4π(x + ε)) + ε."""
    shifted = x + noise
    return (
        x + 0.3 * torch.sin(2 * math.pi * shifted) + 0.3 * torch.sin(4 * math.pi * shifted) + noise
    )


def observations(limits: tuple[float, float], count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Evenly spaced inputs and a noisy target for each."""  # (N, 1), (N, 1)
    x = torch.linspace(*limits, count).unsqueeze(1)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
    return x, curve(x, INNER_DEVIATION * noise)


def inside(x: Tensor) -> Tensor:
    """Which inputs lie where the curve was observed."""
    low, high = OBSERVED
    return ((x >= low) & (x <= high)).squeeze(1)


def regions(x: Tensor) -> dict[str, Tensor]:
    """Which inputs lie in each region: everywhere, where there were data, where there were none."""
    here = inside(x)
    return dict(zip(REGIONS, (torch.ones_like(here), here, ~here), strict=True))


def likelihood(noise: float) -> Gaussian:
    """Observations with this standard deviation, σ_ε."""
    return Gaussian(noise**-2)


def bayesian_network(hidden: int, prior: Prior, sampler: Sampler = "weights") -> nn.Sequential:
    """Three weight layers with random weights, started as in section 3 of the paper.

    μ ~ U(−0.2, 0.2) and ρ ~ U(−5, −4), for which σ is between 0.007 and 0.018.
    """

    def layer(inputs: int, outputs: int) -> nn.Module:
        made = dubio.BayesLinear(inputs, outputs, prior=prior, sampler=sampler)
        with torch.no_grad():
            made.rho.uniform_(-5.0, -4.0)
            for mean in made.layer.parameters():
                mean.uniform_(-0.2, 0.2)
        return made

    return nn.Sequential(
        layer(1, hidden), nn.ReLU(), layer(hidden, hidden), nn.ReLU(), layer(hidden, 1)
    )


def plain_network(hidden: int, drop: float) -> nn.Sequential:
    """The same network with point estimates, and dropout behind its hidden units."""
    return nn.Sequential(
        nn.Linear(1, hidden), nn.ReLU(), nn.Dropout(drop),
        nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(drop),
        nn.Linear(hidden, 1),
    )  # fmt: skip
