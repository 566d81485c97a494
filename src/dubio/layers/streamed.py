"""Gaussian weights whose noise is never stored: the backward pass computes it again.

One pass over the weights forwards, for a sample and its divergence from the prior, and one
backwards, for the gradients of both; by the kernels of `dubio.native.weights`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.layers.centered_prior import CenteredPrior
from dubio.native import weights as kernels
from dubio.native.masked import serves
from dubio.native.stream import Stream
from dubio.native.weights import CHANGE, NO_PRIOR, SAMPLE, SQUARE, GaussianPrior, GaussianWeights
from dubio.noise.derivative import Derivative
from dubio.noise.vectorised import is_followed
from dubio.priors import Gaussian

NO_STREAM = Stream(0, 0, 1)


def streamable(prior: CenteredPrior, tensors: Sequence[Tensor]) -> bool:
    """Return whether the kernels know the prior, and can read the parameters."""
    own, center = prior
    if type(own) is not Gaussian or _is_traced():
        return False
    center_fits = not isinstance(center, Tensor) or kernels.readable(center)
    return center_fits and all(kernels.readable(x) and not is_followed(x) for x in tensors)


def draw(
    kind: int,
    stream: Stream,
    prior: CenteredPrior | None,
    rhos: Sequence[Tensor],
    means: Sequence[Tensor],
) -> tuple[Tensor | None, list[Tensor]]:
    """Return the divergence from a prior, and what is made of weights.

    Args:
        kind: ``SAMPLE`` makes w = μ + σε, ``CHANGE`` σε and ``SQUARE`` σ².
        stream: The noise of one draw, an entry for every weight.
        prior: A Gaussian prior, or None for no divergence.
        rhos: ρ of some layers, each in one row.
        means: μ of all their tensors of weights, in order.

    Returns:
        What was made of every tensor; and before it μ itself, if it is something else than w and
        there is a prior: then the gradient of μ is computed in the same pass.
    """
    total, *made = _Weights.apply(kind, stream, prior, len(rhos), *rhos, *means)
    return total, made


def divergence(prior: CenteredPrior, rho: Tensor, means: Sequence[Tensor]) -> Tensor:
    """KL from a Gaussian prior."""
    total: Tensor = _Weights.apply(None, NO_STREAM, prior, 1, rho, *means)[0]
    return total


def add_local(stream: Stream, mean: Tensor, variance: Tensor) -> Tensor:
    """Mean + √variance·ε."""
    drawn: Tensor = _Local.apply(stream, mean, variance)
    return drawn


@final
class _Weights(Derivative):
    """(ρ, μ) ↦ the divergence, and w = μ + σε, σε or σ².

    With the gradient g of the weights and γ of the divergence,

        ∂/∂μ = g + γ·∂KL/∂μ,  ∂/∂ρ = (g·ε + γ·∂KL/∂σ)·sigmoid(ρ)

    (Clark et al. 2022, eqs. 10–11).
    """

    @staticmethod
    def forward(
        ctx: Any,
        kind: int | None,  # None for the divergence alone
        stream: Stream,
        centered: CenteredPrior | None,
        layers: int,
        *parameters: Tensor,
    ) -> tuple[Tensor | None, ...]:
        prior = known_prior(centered)
        total, made, means = 0.0, [], parameters[layers:]
        for of in weights_in_turn(parameters[:layers], means):
            out = None if kind is None else torch.empty_like(of.mean)
            total += kernels.sample(kind or SAMPLE, stream, of, prior, out)
            made += [] if out is None else [out]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters)
        ctx.kind, ctx.stream, ctx.centered, ctx.layers = kind, stream, centered, layers
        if centered is None:
            return None, *made
        through = [mean.view_as(mean) for mean in means] if kind in (CHANGE, SQUARE) else []
        return torch.full((), total, dtype=torch.float32, device="cpu"), *through, *made

    @staticmethod
    def backward(ctx: Any, of_total: Tensor | None, *of_made: Tensor | None) -> Any:
        parameters, layers = ctx.saved_tensors, ctx.layers
        given = [g for g in (of_total, *of_made) if g is not None]
        if torch.is_grad_enabled() or not all(map(serves, given)):  # once more, or many at once
            return None, None, None, None, *_again(ctx, of_total, of_made)
        rhos, means = parameters[:layers], parameters[layers:]
        needed = ctx.needs_input_grad[4 + layers :]
        prior = NO_PRIOR if of_total is None else known_prior(ctx.centered)
        factor = 0.0 if of_total is None else of_total.item()
        gradients = [None if g is None else g.contiguous() for g in of_made]
        nothing = [None] * len(means)
        made = gradients[-len(means) :] if gradients else nothing
        through = gradients[: len(means)] if len(gradients) > len(means) else nothing
        of_rhos = {id(rho): torch.empty_like(rho) for rho in rhos}
        of_means = [
            torch.empty_like(m) if need else None for m, need in zip(means, needed, strict=True)
        ]
        for of, g, by, of_mean in zip(
            weights_in_turn(rhos, means), made, through, of_means, strict=True
        ):
            kernels.write_slopes(
                ctx.kind or SAMPLE, ctx.stream, of, prior, factor, (g, by), of_mean,
                of_rhos[id(of.rho)],
            )  # fmt: skip
        return None, None, None, None, *of_rhos.values(), *of_means


def _again(
    ctx: Any, of_total: Tensor | None, of_made: Sequence[Tensor | None]
) -> Iterator[Tensor | None]:
    """Compute the gradients by automatic differentiation, with a graph of their own."""
    further, parameters, layers = torch.is_grad_enabled(), ctx.saved_tensors, ctx.layers
    rhos, means = parameters[:layers], parameters[layers:]
    with torch.enable_grad():
        outputs = list(_outputs(ctx, rhos, means, of_total, of_made))
    wanted = [p for p in parameters if p.requires_grad]
    values, gradients = zip(*outputs, strict=True)
    found = iter(
        torch.autograd.grad(values, wanted, gradients, create_graph=further, allow_unused=True)
    )
    return (next(found) if p.requires_grad else None for p in parameters)


def _outputs(
    ctx: Any,
    rhos: tuple[Tensor, ...],
    means: tuple[Tensor, ...],
    of_total: Tensor | None,
    of_made: Sequence[Tensor | None],
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what was made, with a graph, and its gradients."""
    sigma = F.softplus(torch.cat(rhos))
    mean = torch.cat([m.reshape(-1) for m in means])
    if of_total is not None:
        yield ctx.centered.prior.kl(ctx.centered.offset(mean), sigma, None), of_total
    if any(g is not None for g in of_made):
        row = sigma.square()
        if ctx.kind != SQUARE:
            row = sigma * ctx.stream.normal(sigma.shape, sigma)[0]
            row = row if ctx.kind == CHANGE else mean + row
        parts = row.split([m.numel() for m in means])
        made = [part.view(m.shape) for part, m in zip(parts, means, strict=True)]
        made = [*means, *made] if len(of_made) > len(means) else made
        yield from ((w, g) for w, g in zip(made, of_made, strict=True) if g is not None)


@final
class _Local(Derivative):
    """(m, v) ↦ m + √v·ε, whose gradients are g and g·ε/(2√v); zero where v is."""

    @staticmethod
    def forward(ctx: Any, stream: Stream, mean: Tensor, variance: Tensor) -> Tensor:
        ctx.stream = stream
        ctx.save_for_backward(variance)
        return kernels.local(stream, mean, variance)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        (g,), (variance,) = gradients, ctx.saved_tensors
        if not torch.is_grad_enabled() and serves(g):
            return None, g, g * kernels.local_slope(ctx.stream, variance)
        noise = ctx.stream.normal(variance.shape, variance)[0]
        smallest = torch.finfo(variance.dtype).tiny
        slope = variance.clamp(min=smallest).rsqrt() * (0.5 * noise)
        return None, g, g * slope * (variance > smallest)


def _is_traced() -> bool:
    """Return whether torch takes down what is computed, or `torch.func` transforms it."""
    traced: bool = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return traced or torch._C._are_functorch_transforms_active()


def weights_in_turn(rhos: Sequence[Tensor], means: Sequence[Tensor]) -> Iterator[GaussianWeights]:
    """Every tensor of weights, with its place in the row of its layer and in the noise."""
    layers = iter(rhos)
    rho, at, start = next(layers), 0, 0
    for mean in means:
        if at == rho.numel():
            rho, at = next(layers, rho), 0
        yield GaussianWeights(mean, rho, at, start)
        count = mean.numel()
        at, start = at + count, start + count


def known_prior(centered: CenteredPrior | None) -> GaussianPrior:
    """Return a prior as the kernels have it."""
    if centered is None:
        return NO_PRIOR
    prior, center = centered
    assert isinstance(prior, Gaussian)
    if isinstance(center, Tensor):
        return GaussianPrior(prior.sigma, 0.0, center)
    return GaussianPrior(prior.sigma, center)
