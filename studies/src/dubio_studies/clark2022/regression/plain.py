"""Bayes by Backprop in a few lines of torch, to be timed: no kernels of ours."""

import math
import time
from typing import final

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F
from torch.optim import Adam

import dubio
from dubio.layers.bayesian import Sampler
from dubio_studies.clark2022.regression.problem import observations
from dubio_studies.clark2022.regression.published import OBSERVED
from dubio_studies.clark2022.regression.settings import BASE_NOISE, BASE_PRIOR, Config
from dubio_studies.framework.study import Seed

TINY = 1e-32  # under a root, as in the authors' code


@final
class PlainLayer(nn.Module):
    """A linear layer with Gaussian weights.

    Args:
        inputs: Inputs.
        outputs: Outputs.
        sampler: Draw weights, w = μ + σε, or outputs, N(xμ, x²σ²).
        exact: Whether the divergence is in closed form; otherwise it is log q(w) − log p(w).

    Attributes:
        divergence: That of the last draw, if it is not in closed form.
    """

    def __init__(self, inputs: int, outputs: int, sampler: Sampler, *, exact: bool) -> None:
        super().__init__()
        self.local, self.exact = sampler == "local", exact
        self.prior = Normal(0.0, math.exp(-BASE_PRIOR))
        shape = (outputs, inputs + 1)  # the last column is the bias
        self.mean = nn.Parameter(torch.empty(shape).uniform_(-0.2, 0.2))
        self.rho = nn.Parameter(torch.empty(shape).uniform_(-5.0, -4.0))
        self.divergence = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of one draw."""
        posterior = self.posterior()
        if self.local:
            spread = (_affine(x.square(), posterior.scale.square()) + TINY).sqrt()
            return _affine(x, self.mean) + spread * torch.randn_like(spread)
        weights = self.mean + posterior.scale * torch.randn_like(self.mean)
        if not self.exact:
            logs = posterior.log_prob(weights) - self.prior.log_prob(weights)
            self.divergence = logs.sum()
        return _affine(x, weights)

    def posterior(self) -> Normal:
        """Return the distribution of the weights."""
        return Normal(self.mean, F.softplus(self.rho), validate_args=False)

    def kl(self) -> Tensor:
        """Return the divergence from the prior, which is the same for all draws if it is exact."""
        if not self.exact:
            return self.divergence
        return kl_divergence(self.posterior(), self.prior).sum()


def _affine(x: Tensor, weights: Tensor) -> Tensor:
    return F.linear(x, weights[:, :-1], weights[:, -1])


def plain_bayesian_network(hidden: int, sampler: Sampler, *, exact: bool) -> nn.Sequential:
    """The network of the regression, of such layers."""
    first, second, last = (
        PlainLayer(*shape, sampler, exact=exact)
        for shape in ((1, hidden), (hidden, hidden), (hidden, 1))
    )
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


def plain_loss(
    network: nn.Sequential, x: Tensor, y: Tensor, *, draws: int, kl_weight: float
) -> Tensor:
    """Mean over draws of −log p(y | x, w) + kl_weight·KL, in nats."""
    layers = [layer for layer in network if isinstance(layer, PlainLayer)]
    nll, divergences = [], []
    for draw in range(draws):
        nll.append(-Normal(network(x), BASE_NOISE, validate_args=False).log_prob(y).sum())
        if draw == 0 or not layers[0].exact:
            divergences.append(torch.stack([layer.kl() for layer in layers]).sum())
    return torch.stack(nll).mean() + kl_weight * torch.stack(divergences).mean()


def cpu_seconds(config: Config, units: int, sampler: Sampler, seed: Seed, *, exact: bool) -> float:
    """How long the timed epochs take, with the objective and the optimizer of the other runs."""
    x, y = observations(OBSERVED, config.points, seed.common)
    network = plain_bayesian_network(units, sampler, exact=exact)
    optimizer = Adam(network.parameters(), lr=config.learning_rate, fused=True)
    weight = dubio.schedules.minibatch_weights(config.batches)
    started = time.process_time()
    for _ in range(config.timed_epochs):
        order = torch.randperm(config.points).split(config.points // config.batches)
        for number, rows in enumerate(order):
            optimizer.zero_grad()
            share = weight(number) / config.batches
            loss = plain_loss(network, x[rows], y[rows], draws=config.train_draws, kl_weight=share)
            loss.backward()
            optimizer.step()
    return time.process_time() - started
