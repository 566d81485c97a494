"""Gaussian weights: their sample, their divergence from the prior, and the gradients of both.

A weight is w = μ + σε with σ = softplus(ρ) and ε ~ N(0, 1) (paper 004 eq. 8). All work is
elementwise, so it is done in blocks that stay in a processor's cache, forwards and backwards, and
for a sample and its divergence at once, as they share σ. Automatic differentiation would write
every intermediate result to memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.noise.vectorised import vectorised
from dubio.priors.prior import Prior

# Entries of a block for every thread: the few tensors of a block stay in a processor's cache, and
# there are not so many blocks that the calls themselves cost.
BLOCK = 2**18


class Sample(NamedTuple):
    """Weights of a draw, and their divergence from the prior if it was asked for."""

    weights: list[Tensor]
    divergence: Tensor | None


class CenteredPrior(NamedTuple):
    """A prior, and its mean for each weight or for all."""

    prior: Prior
    center: Tensor | float  # (weights,)


@dataclass(frozen=True)
class Posterior:
    """Independent Gaussian weights, N(μ, softplus(ρ)²).

    Attributes:
        means: μ of each tensor of weights.
        rho: ρ of all of them, in one row.  # (weights,)
        kept: Which weights there are, all others being zero; None for all.  # (weights,)
    """

    means: Sequence[Tensor]
    rho: Tensor
    kept: Tensor | None = None

    def split(self, flat: Tensor) -> list[Tensor]:
        """What is in one row, in the shapes of the weights."""
        parts = flat.split([mean.numel() for mean in self.means])
        return [part.view(mean.shape) for part, mean in zip(parts, self.means, strict=True)]

    def mean(self) -> list[Tensor]:
        """μ, and zero for weights that are not there."""
        if self.kept is None:
            return list(self.means)
        return [mean * kept for mean, kept in zip(self.means, self.split(self.kept), strict=True)]

    def deviation(self) -> list[Tensor]:
        """σ, and zero for weights that are not there."""
        sigma = F.softplus(self.rho)
        return self.split(sigma if self.kept is None else sigma * self.kept)

    def sample(self, noise: Tensor) -> list[Tensor]:
        """The weights of a draw."""
        if torch.is_grad_enabled():
            return self._apply(noise, None, weights=True).weights
        parts = zip(self.mean(), self.deviation(), self.split(noise), strict=True)
        return [torch.addcmul(mean, sigma, eps).to(mean.dtype) for mean, sigma, eps in parts]

    def sample_with_divergence(self, noise: Tensor, prior: CenteredPrior) -> Sample:
        """The weights of a draw and their KL from the prior, or its estimate at these weights."""
        return self._apply(noise, prior, weights=True)

    def divergence(self, noise: Tensor | None, prior: CenteredPrior) -> Tensor:
        """KL from the prior, or its estimate at the weights of a draw."""
        total = self._apply(noise, prior, weights=False).divergence
        assert total is not None
        return total

    def _apply(self, noise: Tensor | None, prior: CenteredPrior | None, *, weights: bool) -> Sample:
        if vectorised():
            return self._differentiated(noise, prior, weights=weights)
        total, *sampled = _Gaussian.apply(  # type: ignore[no-untyped-call]
            prior, weights, self.kept, noise, self.rho, *self.means
        )
        return Sample([weight for weight in sampled if weight is not None], total)

    def _differentiated(
        self, noise: Tensor | None, prior: CenteredPrior | None, *, weights: bool
    ) -> Sample:
        """The same by automatic differentiation, which `torch.func` can follow."""
        if self.kept is not None:
            raise NotImplementedError(
                "Bayesian: pruned weights and embeddings with padding have no place where many "
                "networks are computed at once; treat them one by one."
            )
        sigma = F.softplus(self.rho)
        mean = torch.cat([m.reshape(-1).to(sigma.dtype) for m in self.means])
        sampled: list[Tensor] = []
        if weights:
            assert noise is not None
            parts = zip(self.split(torch.addcmul(mean, sigma, noise)), self.means, strict=True)
            sampled = [part.to(m.dtype) for part, m in parts]
        if prior is None:
            return Sample(sampled, None)
        return Sample(sampled, prior.prior.kl(mean - prior.center, sigma, noise))


class _Gaussian(torch.autograd.Function):
    """(ρ, μ) ↦ divergence and weights w = μ + σε, each if it is wanted.

    With the gradient g of the weights and γ of the divergence,

        ∂/∂μ = g + γ·∂KL/∂μ,  ∂/∂ρ = (g·ε + γ·∂KL/∂σ)·sigmoid(ρ)

    (paper 004 eqs. 10–11).
    """

    @staticmethod
    def forward(
        ctx: Any,
        prior: CenteredPrior | None,
        wanted: bool,
        kept: Tensor | None,
        noise: Tensor | None,
        rho: Tensor,
        *means: Tensor,
    ) -> tuple[Tensor | None, ...]:
        weights = [_empty(mean) if wanted else None for mean in means]
        deviation = torch.empty_like(rho)
        total = rho.new_zeros(())
        flats = [rho, deviation, noise, kept, _each(prior)]
        for r, sigma, eps, there, center, mean, weight in _blocks(flats, means, weights):
            torch.ops.aten.softplus.out(r, 1, 20, out=sigma)
            if wanted:
                torch.addcmul(mean, sigma, eps, out=weight)
                if there is not None:
                    weight.mul_(there)
            if prior is not None:
                offset = _offset(mean, center, prior, sigma)
                total += prior.prior.kl(*_those(there, offset, sigma, eps))
        ctx.save_for_backward(rho, deviation, noise, kept, *means)
        ctx.prior = prior
        ctx.set_materialize_grads(False)
        return (None if prior is None else total), *weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_total: Tensor | None, *of_weights: Tensor | None) -> Any:
        rho, deviation, noise, kept, *means = ctx.saved_tensors
        of_rho, of_means = torch.empty_like(rho), [_empty(mean) for mean in means]
        flats = [rho, deviation, noise, kept, _each(ctx.prior), of_rho]
        shaped = (means, of_weights, of_means)
        for r, sigma, eps, there, center, by_rho, mean, g, by_mean in _blocks(flats, *shaped):
            if of_total is None:
                slopes = torch.zeros_like(sigma), torch.zeros_like(sigma)
            else:
                offset = _offset(mean, center, ctx.prior, sigma)
                slopes = ctx.prior.prior.slopes(offset, sigma, eps, of_total.item())
            by_sigma = slopes[1]
            if g is None:
                by_mean.copy_(slopes[0])
            else:
                torch.add(g, slopes[0], out=by_mean)
                by_sigma.addcmul_(g.to(eps.dtype), eps)
            torch.ops.aten.softplus_backward.grad_input(by_sigma, r, 1, 20, grad_input=by_rho)
            if there is not None:
                by_mean.mul_(there)
                by_rho.mul_(there)
        return None, None, None, None, of_rho, *of_means


def _blocks(
    flats: Sequence[Tensor | None], *shaped: Sequence[Tensor | None]
) -> Iterator[tuple[Any, ...]]:
    """Blocks of what is in one row, and of what has the shapes of the weights, side by side."""
    first = 0
    for own in zip(*shaped, strict=True):
        like = own[0]
        assert like is not None
        size = like.numel()
        step = BLOCK * torch.get_num_threads() if like.device.type == "cpu" else size
        rows = [None if tensor is None else tensor.reshape(-1) for tensor in own]
        for start in range(0, size, max(step, 1)):
            stop = min(start + step, size)
            yield (
                *(None if flat is None else flat[first + start : first + stop] for flat in flats),
                *(None if row is None else row[start:stop] for row in rows),
            )
        first += size


def _each(prior: CenteredPrior | None) -> Tensor | None:
    """The means of a prior that has one for each weight."""
    return prior.center if prior is not None and isinstance(prior.center, Tensor) else None


def _offset(mean: Tensor, center: Tensor | None, prior: CenteredPrior, like: Tensor) -> Tensor:
    """The distance of means from those of the prior."""
    precise = mean.to(like.dtype)
    distance = prior.center if center is None else center
    return precise if isinstance(distance, float) and distance == 0 else precise - distance


def _those(there: Tensor | None, *values: Tensor | None) -> list[Any]:
    """The values of weights that are there."""
    return [value if value is None or there is None else value[there] for value in values]


def _empty(mean: Tensor) -> Tensor:
    """A contiguous tensor like it."""
    return torch.empty(mean.shape, dtype=mean.dtype, device=mean.device)
