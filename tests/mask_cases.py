"""All masks: every test over masks reads this list. A new mask is one line in `MASKS`."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
from torch import Tensor

from dubio.masks import Bernoulli, Concrete, Gaussian, LearnableBernoulli, LearnableGaussian, Mask
from newcomer.beta_bernoulli import BetaBernoulli
from newcomer.poisson import Poisson
from newcomer.uniform import Uniform


def expected_norm(column: np.ndarray, length_scale: float, keep: float, **_: float) -> float:
    """½ℓ²·E‖mW‖² for the weights that a unit feeds: the whole KL of a mask with a fixed rate."""
    return length_scale**2 / 2 * float((column**2).sum()) / keep


def bernoulli_variance(drop: float) -> float:
    """By definition of ``drop``, also for masks that drop nothing."""
    return drop / (1 - drop)


@dataclass(frozen=True)
class Case:
    """A mask, and what is known about it. Call it to make one, as `dubio.convert` does.

    Attributes:
        make: Makes the mask, of ``units`` and ``drop``.
        mean: The mean of its multiplier, by ``drop``: one, but for masks that are approximate.
        variance: The variance of its multiplier, by ``drop``.
        learned: Whether it has parameters.
        smooth: Whether the multiplier has a derivative in the parameters, given its noises.
        kl: The KL of one unit: of the weights that it feeds, ℓ, keep, and the mask's parameters.
    """

    make: Callable[..., Mask]
    mean: Callable[[float], float] = lambda drop: 1.0
    variance: Callable[[float], float] = bernoulli_variance
    learned: bool = False
    smooth: bool = False
    kl: Callable[..., float] = expected_norm

    def __call__(self, *args: Any, **options: Any) -> Mask:
        return self.make(*args, **options)


def learned_bernoulli_kl(column: np.ndarray, length_scale: float, keep: float, **_: float) -> float:
    """Gal et al. 2017, eqs. 3–4, with the entropy by scipy."""
    return expected_norm(column, length_scale, keep) - float(scipy.stats.bernoulli(keep).entropy())


def variational_kl(column: np.ndarray, length_scale: float, keep: float, **_: float) -> float:
    """The approximation of Molchanov et al. (2017), for each weight."""
    log_alpha = math.log1p(-keep) - math.log(keep)
    bump = 0.63576 / (1 + math.exp(-1.87320 - 1.48695 * log_alpha))
    return len(column) * (0.63576 + math.log1p(math.exp(-log_alpha)) / 2 - bump)


def concrete_moment(drop: float, power: int, temperature: float = 0.1) -> float:
    """E[m^power] of a Concrete mask by integration over a logistic variable."""
    logit = math.log((1 - drop) / drop)

    def integrand(x: float) -> float:
        soft = scipy.special.expit((logit + x) / temperature)
        return float((soft / (1 - drop)) ** power * scipy.stats.logistic.pdf(x))

    points = [-60.0, -logit - 2, -logit, -logit + 2, 60.0]
    parts = itertools.pairwise(points)
    return sum(scipy.integrate.quad(integrand, a, b, epsabs=1e-12)[0] for a, b in parts)


def poisson_kl(column: np.ndarray, length_scale: float, keep: float, **_: float) -> float:
    """The divergence of one Poisson distribution from another, summed over its support."""
    k = np.arange(200)
    q, p = scipy.stats.poisson(keep / (1 - keep)), scipy.stats.poisson(1)
    of_rates = (q.pmf(k) * (q.logpmf(k) - p.logpmf(k))).sum()
    return expected_norm(column, length_scale, keep) + float(of_rates)


def beta_bernoulli_kl(
    column: np.ndarray, length_scale: float, keep: float, log_a: float, log_b: float
) -> float:
    """The divergence of a Kumaraswamy rate from a uniform one, integrated over the uniform v."""
    a, b = math.exp(log_a), math.exp(log_b)

    def log_density(v: float) -> float:
        rest = (1 - v) ** (1 / b)  # 1 − π^a
        return math.log(a * b * (1 - rest) ** (1 - 1 / a) * rest ** (b - 1))

    of_rates = scipy.integrate.quad(log_density, 0, 1)[0]
    return expected_norm(column, length_scale, keep) + float(of_rates)


MASKS: dict[str, Case] = {
    "bernoulli": Case(Bernoulli),
    "concrete": Case(
        Concrete,
        mean=partial(concrete_moment, power=1),
        variance=lambda drop: concrete_moment(drop, 2) - concrete_moment(drop, 1) ** 2,
        learned=True,
        smooth=True,
        kl=learned_bernoulli_kl,
    ),
    "learnable": Case(LearnableBernoulli, learned=True, kl=learned_bernoulli_kl),
    "gaussian": Case(Gaussian, smooth=True),
    "variational": Case(LearnableGaussian, learned=True, smooth=True, kl=variational_kl),
    "uniform": Case(Uniform, smooth=True),
    "poisson": Case(Poisson),
    "poisson, learned": Case(partial(Poisson, learn=True), learned=True, kl=poisson_kl),
    "beta-bernoulli": Case(BetaBernoulli, learned=True, kl=beta_bernoulli_kl),
}
LEARNED = {name: case for name, case in MASKS.items() if case.learned}

every_mask = pytest.mark.parametrize("kind", MASKS.values(), ids=list(MASKS))
every_learned_mask = pytest.mark.parametrize("kind", LEARNED.values(), ids=list(LEARNED))


def draw(distribution: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Noise by torch alone, in float64."""
    make = {"uniform": torch.rand, "normal": torch.randn}[distribution]
    return make(shape, dtype=torch.float64, generator=generator)


def multipliers(mask: Mask, samples: int, generator: torch.Generator) -> Tensor:
    """A mask many times over, from independent noise for every sample: (samples, units)."""
    shape = (samples, mask.units)
    noises = [draw(noise.distribution, shape, generator) for noise in mask.noises]
    return mask.double().multiplier(1, *noises)
