"""Gradients for dropout rates: one-sample estimates, the truth, and how far apart they are."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import get_args

import torch
from torch import Tensor, nn

from dubio import ELBO, Masked
from dubio.likelihoods import Gaussian, Likelihood
from dubio.masks import Concrete, LearnableBernoulli
from dubio.masks.mask import LearnedRate
from dubio.objectives.estimators import Estimator

ESTIMATORS: tuple[str, ...] = get_args(Estimator)
METHODS = ("concrete", *ESTIMATORS)
GROUPS = 10  # of samples, for the jackknife
ROWS = 3000  # of data in the toy


@dataclass(frozen=True)
class Problem:
    """A network with learnable masks, its data, and the true gradient for its logits.

    Attributes:
        truth: The gradient of the expected loss.  # (logits,)
        error: Standard error of that truth, as a root mean square.
    """

    name: str
    network: nn.Sequential
    likelihood: Likelihood
    x: Tensor
    y: Tensor
    truth: Tensor
    error: float = 0.0


@dataclass(frozen=True)
class Quality:
    """Root mean squares over the logits, in units of the true gradient's."""

    bias: float
    deviation: float
    rmse: float

    @classmethod
    def of(cls, samples: Tensor, truth: Tensor) -> "Quality":  # (n, logits), (logits,)
        """The bias is freed of the share that the mean's own variance has in its square."""
        variance = samples.var(0).mean()
        squared_bias = (samples.mean(0) - truth).square().mean() - variance / len(samples)
        rmse = (samples - truth).square().mean()
        scale = truth.square().mean().sqrt()
        return cls(*(float(v.clamp(min=0).sqrt() / scale) for v in (squared_bias, variance, rmse)))


class TimesKeep(nn.Module):
    """Multiplies by keep, which undoes the 1/keep of the mask behind it: the paper's bare z."""

    def __init__(self, mask: LearnedRate) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        """The input times the rates of keeping."""
        return x * self.mask.keep


def toy_layers(width: int, seed: int) -> tuple[nn.Linear, nn.Linear, Tensor, Tensor]:
    """The layers of a 1-width-1 net with random weights; data from it without ReLU and masks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, second = nn.Linear(1, width), nn.Linear(width, 1, bias=False)
        with torch.no_grad():
            for parameter in first.parameters():
                parameter.normal_()
            second.weight.normal_().div_(math.sqrt(width))
            x = torch.randn(ROWS, 1)
            y = second(first(x))
    first.requires_grad_(False)
    second.requires_grad_(False)
    return first, second, x, y


def bare_toy(keep: Sequence[float], seed: int) -> Problem:
    """E[(y − f(x; W, z))²] with z ~ Bernoulli(σ(α)), no 1/keep (Boluki et al. 2020, section 3.1).

    The truth is the derivative of the sum over all masks of their probability times their loss.
    """
    first, second, x, y = toy_layers(len(keep), seed)
    mask = LearnableBernoulli(len(keep))
    with torch.no_grad():
        mask.logit.copy_(torch.tensor(keep, dtype=torch.float64).logit())
    network = nn.Sequential(first, nn.ReLU(), TimesKeep(mask), Masked(second, mask))
    parts = (first(x).relu() * second.weight).double()  # (ROWS, width)
    truth = enumerated_gradient(mask.logit.detach().double(), parts, y.double())
    return Problem(f"toy regression at keep {tuple(keep)}", network, Gaussian(2.0), x, y, truth)


def enumerated_gradient(logit: Tensor, parts: Tensor, y: Tensor) -> Tensor:  # (logits,)
    """∇ Σ_z p(z)·mean_i (y_i − Σ_k z_k a_ik)², over all 2^width masks z."""
    logit = logit.clone().requires_grad_(True)
    masks = torch.tensor(list(product([0.0, 1.0], repeat=len(logit))), dtype=logit.dtype)
    keep = torch.sigmoid(logit)
    probability = torch.where(masks == 1, keep, 1 - keep).prod(1)  # (masks,)
    losses = (y - parts @ masks.T).square().mean(0)  # (masks,)
    (gradient,) = torch.autograd.grad(probability @ losses, logit)
    return gradient


def toy(width: int, seed: int) -> Problem:
    """The toy at any width, with rates of all kinds and the library's masks z/keep.

    With a_k the k-th unit's part of the output, E[ℓ] = (y − Σ a_k)² + Σ a_k²·drop_k/keep_k, and
    d(drop/keep)/dφ = −drop/keep.
    """
    first, second, x, y = toy_layers(width, seed)
    mask = LearnableBernoulli(width)
    with torch.no_grad():
        mask.logit.normal_(1.0, 1.0, generator=torch.Generator().manual_seed(seed))
        parts = first(x).relu() * second.weight  # (ROWS, width)
        truth = -(1 / mask.keep - 1) * parts.square().mean(0)
    network = nn.Sequential(first, nn.ReLU(), Masked(second, mask))
    return Problem(f"toy regression, width {width}", network, Gaussian(2.0), x, y, truth)


def masks(network: nn.Sequential) -> list[LearnedRate]:
    """The masks of a network in their order."""
    found = [module.mask for module in network if isinstance(module, Masked)]
    return [mask for mask in found if isinstance(mask, LearnedRate)]


def with_concrete(network: nn.Sequential, temperature: float) -> nn.Sequential:
    """The network with Concrete masks at the same rates; weights are shared."""
    swapped = {}
    for mask in masks(network):
        swapped[mask] = Concrete(mask.units, temperature=temperature)
        swapped[mask].load_state_dict(mask.state_dict())

    def swap(module: nn.Module) -> nn.Module:
        if isinstance(module, TimesKeep):
            return TimesKeep(swapped[module.mask])
        if isinstance(module, Masked):
            assert isinstance(module.mask, LearnedRate)
            return Masked(module.layer, swapped[module.mask])
        return module

    return nn.Sequential(*map(swap, network))


def gradients(
    problem: Problem, method: str, samples: int, *, seed: int = 1, temperature: float = 0.1
) -> Tensor:  # (samples, logits)
    """One-sample gradients of the expected loss for all logits, by way of `dubio.ELBO`."""
    concrete = method == "concrete"
    network = with_concrete(problem.network, temperature) if concrete else problem.network
    elbo = ELBO(
        network,
        problem.likelihood,
        num_data=1,
        estimator="trapezoid_once" if concrete else method,  # type: ignore[arg-type]
        kl_weight=0.0,
        generator=torch.Generator().manual_seed(seed),
    )
    logits = [mask.logit for mask in masks(network)]
    return torch.stack([grad(elbo(problem.x, problem.y), logits) for _ in range(samples)])


def grad(loss: Tensor, logits: Sequence[Tensor]) -> Tensor:
    """The gradient of the loss for all logits."""
    return torch.cat(torch.autograd.grad(loss, logits))


def jackknife(statistic: Callable[[Tensor], float], samples: Tensor) -> float:
    """Standard error of a statistic of the samples, leaving out a group of them at a time."""
    groups = samples.tensor_split(GROUPS)
    left = torch.tensor(
        [statistic(torch.cat([*groups[:i], *groups[i + 1 :]])) for i in range(GROUPS)]
    )
    return float(((GROUPS - 1) * left.var(correction=0)).sqrt())
