"""Bayesian optimisation with a dropout network and BoTorch, compared with random search.

Minimises the Branin function (Dixon and Szegö 1978) with ten random points and twenty more in
batches of four. For each batch a network is retrained on all points, and the batch maximises the
expected improvement over its functions. Prints the regret after all points. ``python
examples/bayesian_optimisation.py 1 2`` runs one seed and two batches.
"""

import math
import sys
import warnings

import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from torch import Tensor, nn

import dubio
from dubio.bridges.botorch import NetworkModel
from dubio.likelihoods import Gaussian

FIRST, AT_ONCE = 10, 4
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
LEAST = 0.397887


def minus_branin(x: Tensor) -> Tensor:  # (…, 2) in the unit square -> (…, 1)
    """The function to maximise."""
    u, v = 15 * x[..., :1] - 5, 15 * x[..., 1:]
    curve = v - 5.1 / (4 * math.pi**2) * u**2 + 5 / math.pi * u - 6
    return -(curve**2 + 10 * (1 - 1 / (8 * math.pi)) * u.cos() + 10)


def trained(x: Tensor, y: Tensor) -> nn.Module:
    """A small dropout network, fitted to standardised targets."""
    width, rate = 64, 0.05
    net = nn.Sequential(
        nn.Linear(2, width), nn.Tanh(), nn.Dropout(rate),
        nn.Linear(width, width), nn.Tanh(), nn.Dropout(rate), nn.Linear(width, 1),
    ).double()  # fmt: skip
    elbo = dubio.ELBO(net, Gaussian(100.0), num_data=len(x))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    dubio.fit(elbo, (x, y), optimizer=optimizer, epochs=400, batch_size=len(x), progress=False)
    return net


def regret(seed: int, rounds: int) -> float:
    """Distance to the optimal value after some rounds."""
    torch.manual_seed(seed)
    x = torch.rand(FIRST, 2, dtype=torch.float64)
    for _ in range(rounds):
        y = minus_branin(x)
        standardise = Standardize(1)
        net = trained(x, standardise(y)[0])
        model = NetworkModel(net, generator=seed, outcome_transform=standardise.eval())
        acquisition = qLogExpectedImprovement(model, best_f=y.max())
        found, _ = optimize_acqf(acquisition, BOUNDS, AT_ONCE, num_restarts=4, raw_samples=64)
        x = torch.cat([x, found])
    return -minus_branin(x).max().item() - LEAST


def main(seeds: int = 5, rounds: int = 5) -> None:
    """Compare over several seeds."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Optimization failed")  # the best point found is used
    by_network = torch.tensor([regret(seed, rounds) for seed in range(seeds)])
    points = FIRST + rounds * AT_ONCE
    torch.manual_seed(0)
    at_random = -minus_branin(torch.rand(1000, points, 2)).amax((1, 2)) - LEAST
    print(f"regret after {points} points, median: network {by_network.median():.3f}, "
          f"random search {at_random.median():.3f}")  # fmt: skip
    better = (at_random[:, None] > by_network).float().mean()
    print(f"the network beats {better:.0%} of random searches; by seed: "
          f"{', '.join(f'{r:.3f}' for r in by_network)}")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
