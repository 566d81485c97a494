"""Gaussian weights: their sample, their divergence from the prior, and the gradients of both.

A weight is w = μ + σε with σ = softplus(ρ) and ε ~ N(0, 1) (Clark et al. 2022, eq. 8). All work is
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

from dubio.noise.derivative import Derivative
from dubio.noise.vectorised import is_vectorised
from dubio.priors.prior import Prior

# Entries of a block for every thread: the few tensors of a block stay in a processor's cache, and
# there are not so many blocks that the calls themselves cost.
BLOCK = 2**18


class Sample(NamedTuple):
    """Weights of a draw, and their divergence from the prior if it was asked for.

    Attributes:
        weights: The weights.
        divergence: The divergence.
        graph: Whether gradients were on when they were drawn.
    """

    weights: list[Tensor]
    divergence: Tensor | None
    graph: bool = True


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
        if is_vectorised(self.rho) or torch.compiler.is_dynamo_compiling():
            return self._differentiated(noise, prior, weights=weights)
        total, *sampled = _Gaussian.apply(
            prior, weights, self.kept, noise, 1, self.rho, *self.means
        )
        return Sample(sampled if weights else [], total)

    def _differentiated(
        self, noise: Tensor | None, prior: CenteredPrior | None, *, weights: bool
    ) -> Sample:
        """The same by automatic differentiation, for many networks at once and for compilers."""
        if self.kept is not None and is_vectorised(self.rho):
            raise NotImplementedError(
                "Bayesian: pruned weights and embeddings with padding have no place where many "
                "networks are computed at once; treat them one by one."
            )
        sigma = F.softplus(self.rho)
        mean = _in_a_row(self.means, sigma)
        sampled: list[Tensor] = []
        if weights:
            assert noise is not None
            row = torch.addcmul(mean, sigma, noise)
            sampled = _shaped(row if self.kept is None else row * self.kept, self.means)
        if prior is None:
            return Sample(sampled, None)
        terms = _those(self.kept, _offset(mean, prior.center), sigma, noise)
        return Sample(sampled, prior.prior.kl(*terms))


def sample_together(
    posteriors: Sequence[Posterior], noise: Tensor, prior: CenteredPrior
) -> tuple[list[list[Tensor]], Tensor]:
    """Weights of several layers with one prior, all of whose weights there are, and their KL."""
    rhos = [posterior.rho for posterior in posteriors]
    means = [mean for posterior in posteriors for mean in posterior.means]
    total, *sampled = _Gaussian.apply(prior, True, None, noise, len(rhos), *rhos, *means)
    weights = iter(sampled)
    return [[next(weights) for _ in posterior.means] for posterior in posteriors], total


class _Gaussian(Derivative):
    """(ρ, μ) ↦ divergence and weights w = μ + σε, each if it is wanted.

    With the gradient g of the weights and γ of the divergence,

        ∂/∂μ = g + γ·∂KL/∂μ,  ∂/∂ρ = (g·ε + γ·∂KL/∂σ)·sigmoid(ρ)

    (Clark et al. 2022, eqs. 10–11).
    """

    @staticmethod
    def forward(
        ctx: Any,
        centered: CenteredPrior | None,
        sampling: bool,
        kept: Tensor | None,
        noise: Tensor | None,
        layers: int,
        *parameters: Tensor,
    ) -> tuple[Tensor | None, ...]:
        prior, center = (None, None) if centered is None else centered
        rhos, means = parameters[:layers], parameters[layers:]
        rho = rhos[0] if layers == 1 else torch.cat(rhos)
        mean = _in_a_row(means, rho)
        deviation = F.softplus(rho)
        row = torch.empty_like(rho) if sampling else None
        totals = []
        for sigma, eps, there, middle, mu, w in _blocks(deviation, noise, kept, center, mean, row):
            if w is not None:
                torch.addcmul(mu, sigma, eps, out=w)
                if there is not None:
                    w.mul_(there)
            if prior is not None:
                totals.append(prior.kl(*_those(there, _offset(mu, middle), sigma, eps)))
        total = None if prior is None else totals[0] if len(totals) == 1 else sum(totals)
        weights = [None] * len(means) if row is None else _shaped(row, means)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(noise, kept, *parameters)
        ctx.mean, ctx.deviation, ctx.prior, ctx.center = mean, deviation, prior, center
        ctx.layers, ctx.rho = layers, rho if layers > 1 else None
        return total, *weights

    @staticmethod
    def backward(ctx: Any, of_total: Tensor | None, *of_weights: Tensor | None) -> Any:
        noise, kept, *parameters = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated once more
            return None, None, None, None, None, *_Gaussian._again(ctx, of_total, *of_weights)
        rhos, means = parameters[: ctx.layers], parameters[ctx.layers :]
        rho = rhos[0] if ctx.rho is None else ctx.rho
        if all(g is None for g in of_weights):
            of_mean, of_deviation = torch.zeros_like(rho), torch.zeros_like(rho)
        else:
            of_mean = _in_a_row(of_weights, rho, means, own=True)
            of_deviation = of_mean * noise
        if of_total is not None:
            factor = of_total.item()
            for by_mean, by_sigma, mu, sigma, eps, middle in _blocks(
                of_mean, of_deviation, ctx.mean, ctx.deviation, noise, ctx.center
            ):
                ctx.prior.add_slopes(by_mean, by_sigma, _offset(mu, middle), sigma, eps, factor)
        of_rho = torch.ops.aten.softplus_backward(of_deviation, rho, 1, 20)
        if kept is not None:
            of_mean.mul_(kept)
            of_rho.mul_(kept)
        of_rhos = [of_rho] if ctx.rho is None else of_rho.split([len(rho) for rho in rhos])
        return None, None, None, None, None, *of_rhos, *_shaped(of_mean, means)

    @staticmethod
    def _again(
        ctx: Any, of_total: Tensor | None, *of_weights: Tensor | None
    ) -> Sequence[Tensor | None]:
        """The gradients with a graph of their own, by automatic differentiation."""
        noise, kept, *parameters = ctx.saved_tensors
        rhos, means = parameters[: ctx.layers], parameters[ctx.layers :]
        rho = torch.cat(rhos)
        sigma, mean = F.softplus(rho), _in_a_row(means, rho)
        outputs: list[tuple[Tensor, Tensor]] = []
        if of_total is not None:
            terms = _those(kept, _offset(mean, ctx.center), sigma, noise)
            outputs.append((ctx.prior.kl(*terms), of_total))
        if any(g is not None for g in of_weights):
            row = torch.addcmul(mean, sigma, noise)
            weights = _shaped(row if kept is None else row * kept, means)
            pairs = zip(weights, of_weights, strict=True)
            outputs += [(weight, g) for weight, g in pairs if g is not None]
        wanted = [p for p in parameters if p.requires_grad]
        found = iter(
            torch.autograd.grad(
                [output for output, _ in outputs],
                wanted,
                [g for _, g in outputs],
                create_graph=True,
                allow_unused=True,
            )
        )
        return [next(found) if p.requires_grad else None for p in parameters]


def _in_a_row(
    tensors: Sequence[Tensor | None],
    like: Tensor,
    shapes: Sequence[Tensor] = (),
    *,
    own: bool = False,
) -> Tensor:
    """Tensors of weights in one row, in the dtype of another; zeros in the place of None.

    With ``own`` the row has memory of its own, that can be written over.
    """
    rows = [
        like.new_zeros(shapes[i].numel()) if tensor is None else tensor.reshape(-1)
        for i, tensor in enumerate(tensors)
    ]
    row = rows[0] if len(rows) == 1 else torch.cat(rows)
    if row.dtype != like.dtype:
        return row.to(like.dtype)
    return row.clone() if own and len(rows) == 1 else row


def _shaped(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """What is in one row, in the shapes and dtypes of the weights."""
    parts = row.split([mean.numel() for mean in like]) if len(like) > 1 else [row]
    return [
        part.view(mean.shape) if mean.dtype == row.dtype else part.view(mean.shape).to(mean.dtype)
        for part, mean in zip(parts, like, strict=True)
    ]


def _blocks(*rows: Tensor | float | None) -> Iterator[tuple[Any, ...]]:
    """Blocks of some rows, side by side; what is no row goes with all of them."""
    first = rows[0]
    assert isinstance(first, Tensor)
    size = len(first)
    step = BLOCK * torch.get_num_threads() if first.device.type == "cpu" else size
    if size <= step:
        yield rows
        return
    for start in range(0, size, step):
        yield tuple(r[start : start + step] if isinstance(r, Tensor) else r for r in rows)


def _offset(mean: Tensor, center: Tensor | float) -> Tensor:
    """The distance of means from those of the prior."""
    return mean if isinstance(center, float) and center == 0 else mean - center


def _those(there: Tensor | None, *values: Tensor | None) -> list[Any]:
    """The values of weights that are there."""
    return [value if value is None or there is None else value[there] for value in values]
