"""Three items, all their masks, and ε by Gauss–Hermite: the bound and its gradient exactly."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dubio.masks import LearnableBernoulli
from dubio.recommend.rates import RateEstimator
from dubio.recommend.sparse import SparseRows
from dubio.recommend.step_noise import StepNoise
from dubio.recommend.variational import VariationalNetwork

ITEMS = 4  # the last is in no history
HISTORY = (0, 1, 2)
LOGITS = (0.4, -0.7, 1.1, 0.2)


def network(
    mixture: int, decodings: int = 1, estimator: RateEstimator = "arm", scale: float = 1.0
) -> VariationalNetwork:
    """A small network in double precision, far from linear."""
    mask = LearnableBernoulli(ITEMS, drop=0.5)
    found = VariationalNetwork(
        ITEMS, 2, 1, mask, mixture=mixture, decodings=decodings, estimator=estimator
    ).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.normal_(generator=generator, std=scale, mean=0)
        mask.logit.copy_(torch.tensor(LOGITS))
    return found


@dataclass(frozen=True)
class Weighted:
    """Many users with the same history, each with its own noise and a probability."""

    rows: SparseRows
    noise: StepNoise
    weights: Tensor  # (B,)


def weighted(masks: Tensor, probabilities: Tensor, decodings: int, nodes: int) -> Weighted:
    """All combinations of noise of the masks, (C, V + 1, 3), with nodes for ε."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    epsilons = torch.tensor(list(itertools.product(x, repeat=decodings)))  # (E, J)
    weights = torch.tensor([math.prod(p) for p in itertools.product(w, repeat=decodings)])
    cells, users = len(masks), len(masks) * len(epsilons)
    u = masks.repeat_interleave(len(epsilons), 0)  # (B, V + 1, 3)
    rows = SparseRows(
        torch.tensor(HISTORY).repeat(users), torch.arange(users + 1) * len(HISTORY), ITEMS
    )
    noise = StepNoise(
        (u.transpose(0, 1).reshape(u.shape[1], -1),),
        epsilons.t()[:, None].expand(-1, cells, -1).reshape(decodings, users, 1),
        torch.zeros(users),
    )
    return Weighted(rows, noise, torch.outer(probabilities, weights).view(-1))


def cells(net: VariationalNetwork, decodings: int = 1, nodes: int = 24) -> Weighted:
    """Noise that gives every pair of masks z(u), z(1 − u) its probability and its mean of u.

    A mask and its reflection are constant on three intervals of u, and an estimator that is linear
    in u on each has its expectation as a sum over their centres.
    """
    assert isinstance(net.input.mask, LearnableBernoulli)
    options = []
    for keep in net.input.mask.keep.detach()[: len(HISTORY)].tolist():
        low, high = sorted((keep, 1 - keep))
        ends = [(0.0, low), (low, high), (high, 1.0)]
        options.append([((a + b) / 2, b - a) for a, b in ends if b > a])
    chosen = list(itertools.product(*(options * net.mixture)))
    u = torch.tensor([[one[0] for one in row] for row in chosen], dtype=torch.float64)
    p = torch.tensor([math.prod(one[1] for one in row) for row in chosen], dtype=torch.float64)
    return weighted(u.view(len(u), net.mixture, -1), p, decodings, nodes)


def stacks(keep: Tensor, mixture: int) -> tuple[Tensor, Tensor]:
    """All masks of V + 1 components, (C, V + 1, 3), and their probabilities, (C,)."""
    z = torch.tensor(list(itertools.product((0.0, 1.0), repeat=mixture * len(HISTORY))))
    z = z.double().view(-1, mixture, len(HISTORY))
    of_items = keep[: len(HISTORY)]
    return z, torch.where(z == 1, of_items, 1 - of_items).flatten(1).prod(1)


def naive_bound(net: VariationalNetwork, z: Tensor, epsilon: Tensor, beta: float) -> Tensor:
    """f with dense matrices and loops, as the formulas say.

    Args:
        net: Whose parameters to use.
        z: Masks of the items.  # (C, V + 1, 3)
        epsilon: (J,)
        beta: Weight of the divergence.

    Returns:
        (C,)
    """
    assert net.input.mask is not None
    keep = net.input.mask.keep[: len(HISTORY)]
    x = torch.full((len(HISTORY),), 1 / math.sqrt(len(HISTORY)), dtype=torch.float64)
    a = (x * z / keep) @ net.input.weight[: len(HISTORY)] + net.input.linear.bias
    mean, log_variance = net.encoder(torch.tanh(a)).unbind(-1)  # (C, V + 1)
    total = torch.zeros(len(z), dtype=torch.float64)
    for j, one in enumerate(epsilon):
        eta = mean[:, j] + torch.exp(log_variance[:, j] / 2) * one
        g = net.output(torch.tanh(net.decoder(eta[:, None])))
        nll = -torch.log_softmax(g, -1)[:, list(HISTORY)].sum(1)
        q = torch.distributions.Normal(mean, torch.exp(log_variance / 2))
        log_h = q.log_prob(eta[:, None]).exp().mean(1).log()
        log_p = torch.distributions.Normal(0.0, 1.0).log_prob(eta)
        total = total + nll + beta * (log_h - log_p)
    return total / len(epsilon)


def exact(net: VariationalNetwork, beta: float, nodes: int = 24) -> Tensor:
    """E f over all masks and ε; differentiable in all parameters, the probabilities included."""
    assert net.input.mask is not None
    z, probabilities = stacks(net.input.mask.keep, net.mixture)
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    total = torch.zeros((), dtype=torch.float64)
    for epsilon in itertools.product(zip(x, w / w.sum(), strict=True), repeat=net.decodings):
        weight = math.prod(one[1] for one in epsilon)
        f = naive_bound(net, z, torch.tensor([one[0] for one in epsilon]), beta)
        total = total + weight * (probabilities * f).sum()
    return total


def estimate(net: VariationalNetwork, beta: float, nodes: int = 24) -> Tensor:
    """The expectation of what the library computes, and of its gradient, by backward."""
    users = cells(net, net.decodings, nodes)
    return (users.weights * net(users.rows, users.noise, beta)).sum()


def gradients(net: VariationalNetwork, value: Tensor) -> dict[str, Tensor]:
    """The gradient of a value for all parameters."""
    names = [name for name, _ in net.named_parameters()]
    found = torch.autograd.grad(value, list(net.parameters()), allow_unused=True)
    return {
        name: torch.zeros(()) if one is None else one
        for name, one in zip(names, found, strict=True)
    }
