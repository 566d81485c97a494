"""Gaussian weights: their sample, their divergence from the prior, and the gradients of both.

A weight is w = μ + σε with σ = softplus(ρ) and ε ~ N(0, 1) (Clark et al. 2022, eq. 8). The noise ε
is a tensor, or a `Stream` of numbers that are not drawn yet: then `dubio.layers.streamed` does the
work, in one pass over the weights. Here it is done by torch, for all priors, types and devices; for
a sample and its divergence at once, as they share σ. Automatic differentiation would write every
intermediate result to memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.layers import streamed
from dubio.layers.centered_prior import CenteredPrior
from dubio.native.stream import Stream
from dubio.native.weights import CHANGE, SAMPLE, SQUARE
from dubio.noise.derivative import Derivative
from dubio.noise.vectorised import is_followed, is_vectorised


class Sample(NamedTuple):
    """Weights of a draw, and their divergence from the prior if it was asked for.

    Attributes:
        weights: The weights.
        divergence: The divergence.
        graph: Whether gradients were on when they were drawn.
        changes: Where the weights are means: their changes σε, or the variances σ².
    """

    weights: list[Tensor]
    divergence: Tensor | None
    graph: bool = True
    changes: Sequence[Tensor] = ()


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
        """Return what is in one row, in the shapes of the weights."""
        parts = flat.split([mean.numel() for mean in self.means])
        return [part.view(mean.shape) for part, mean in zip(parts, self.means, strict=True)]

    def mean(self) -> list[Tensor]:
        """Return μ, and zero for weights that are not there."""
        if self.kept is None:
            return list(self.means)
        return [mean * kept for mean, kept in zip(self.means, self.split(self.kept), strict=True)]

    def deviation(self) -> list[Tensor]:
        """Return σ, and zero for weights that are not there."""
        sigma = F.softplus(self.rho)
        return self.split(sigma if self.kept is None else sigma * self.kept)

    def sample(self, noise: Tensor | Stream) -> list[Tensor]:
        """Return the weights of a draw."""
        if isinstance(noise, Stream):
            return streamed.draw(SAMPLE, noise, None, [self.rho], self.means)[1]
        if torch.is_grad_enabled():
            return self._apply(noise, None, weights=True).weights
        parts = zip(self.mean(), self.deviation(), self.split(noise), strict=True)
        return [torch.addcmul(mean, sigma, eps).to(mean.dtype) for mean, sigma, eps in parts]

    def sample_with_divergence(self, noise: Tensor | Stream, prior: CenteredPrior) -> Sample:
        """Return the weights of a draw and their KL from the prior, or its estimate."""
        if isinstance(noise, Stream):
            total, weights = streamed.draw(SAMPLE, noise, prior, [self.rho], self.means)
            return Sample(weights, total)
        return self._apply(noise, prior, weights=True)

    def changes(self, noise: Tensor | Stream) -> list[Tensor]:
        """Return σε, by which weights of a draw differ from their means."""
        if isinstance(noise, Stream):
            return streamed.draw(CHANGE, noise, None, [self.rho], self.means)[1]
        parts = zip(self.deviation(), self.split(noise), self.means, strict=True)
        return [(sigma * eps).to(mean.dtype) for sigma, eps, mean in parts]

    def variances(self) -> list[Tensor]:
        """Return σ²."""
        return [sigma.square() for sigma in self.deviation()]

    def moments(self, noise: Stream | None, prior: CenteredPrior) -> Sample:
        """Return means with the changes σε, or without noise with σ², and the KL from the prior."""
        kind = SQUARE if noise is None else CHANGE
        stream = streamed.NO_STREAM if noise is None else noise
        total, made = streamed.draw(kind, stream, prior, [self.rho], self.means)
        count = len(self.means)
        return Sample(made[:count], total, torch.is_grad_enabled(), made[count:])

    def divergence(self, noise: Tensor | None, prior: CenteredPrior) -> Tensor:
        """KL from the prior, or its estimate at the weights of a draw."""
        if self.streamable(prior):
            return streamed.divergence(prior, self.rho, self.means)
        total = self._apply(noise, prior, weights=False).divergence
        assert total is not None
        return total

    def streamable(self, prior: CenteredPrior) -> bool:
        """Return whether its noise need not be drawn: the kernels can do all there is to do."""
        return self.kept is None and streamed.streamable(prior, [self.rho, *self.means])

    def _apply(self, noise: Tensor | None, prior: CenteredPrior | None, *, weights: bool) -> Sample:
        if torch.compiler.is_dynamo_compiling():
            return self._differentiated(noise, prior, weights=weights)
        if is_followed(self.rho) or torch._C._are_functorch_transforms_active():
            return self._differentiated(noise, prior, weights=weights)
        total, *sampled = _Gaussian.apply(
            prior, weights, self.kept, noise, 1, self.rho, *self.means
        )
        return Sample(sampled if weights else [], total)

    def _differentiated(
        self, noise: Tensor | None, prior: CenteredPrior | None, *, weights: bool
    ) -> Sample:
        """Compute the same by automatic differentiation, for vmap and compilers."""
        if self.kept is not None and is_vectorised(self.rho):
            raise NotImplementedError(
                "Bayesian: pruned weights and embeddings with padding have no place where many "
                "networks are computed at once; treat them one by one"
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
        terms = _those(self.kept, prior.offset(mean), sigma, noise)
        return Sample(sampled, prior.prior.kl(*terms))


def sample_together(
    posteriors: Sequence[Posterior], noise: Tensor | Stream, prior: CenteredPrior
) -> tuple[list[list[Tensor]], Tensor]:
    """Weights of several layers with one prior, all of whose weights there are, and their KL."""
    rhos = [posterior.rho for posterior in posteriors]
    means = [mean for posterior in posteriors for mean in posterior.means]
    if isinstance(noise, Stream):
        total, sampled = streamed.draw(SAMPLE, noise, prior, rhos, means)
    else:
        total, *sampled = _Gaussian.apply(prior, True, None, noise, len(rhos), *rhos, *means)
    assert total is not None
    weights = iter(sampled)
    return [[next(weights) for _ in posterior.means] for posterior in posteriors], total


class _Gaussian(Derivative):
    """(ρ, μ) ↦ divergence and weights w = μ + σε, each if it is wanted.

    Its gradients are those of `dubio.layers.streamed`, for any prior.
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
        rhos, means = parameters[:layers], parameters[layers:]
        rho = rhos[0] if layers == 1 else torch.cat(rhos)
        mean = _in_a_row(means, rho)
        sigma = F.softplus(rho)
        total: Tensor | None = None
        weights: Sequence[Tensor | None] = [None] * len(means)
        if sampling:
            assert noise is not None
            row = torch.addcmul(mean, sigma, noise)
            weights = _shaped(row if kept is None else row.mul_(kept), means)
        if centered is not None:
            terms = _those(kept, centered.offset(mean), sigma, noise)
            total = centered.prior.kl(*terms)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(noise, kept, *parameters)
        ctx.mean, ctx.deviation, ctx.centered = mean, sigma, centered
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
            offset, factor = ctx.centered.offset(ctx.mean), of_total.item()
            ctx.centered.prior.add_slopes(
                of_mean, of_deviation, offset, ctx.deviation, noise, factor
            )
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
        """Return the gradients with a graph of their own, by automatic differentiation."""
        noise, kept, *parameters = ctx.saved_tensors
        rhos, means = parameters[: ctx.layers], parameters[ctx.layers :]
        rho = torch.cat(rhos)
        sigma, mean = F.softplus(rho), _in_a_row(means, rho)
        outputs: list[tuple[Tensor, Tensor]] = []
        if of_total is not None:
            terms = _those(kept, ctx.centered.offset(mean), sigma, noise)
            outputs.append((ctx.centered.prior.kl(*terms), of_total))
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
    """Return tensors of weights in one row, in the dtype of another; zeros in the place of None.

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
    """Return what is in one row, in the shapes and dtypes of the weights."""
    parts = row.split([mean.numel() for mean in like]) if len(like) > 1 else [row]
    return [
        part.view(mean.shape) if mean.dtype == row.dtype else part.view(mean.shape).to(mean.dtype)
        for part, mean in zip(parts, like, strict=True)
    ]


def _those(there: Tensor | None, *values: Tensor | None) -> list[Any]:
    """Return the values of weights that are there."""
    return [value if value is None or there is None else value[there] for value in values]
