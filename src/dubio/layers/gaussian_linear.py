"""A linear layer with Gaussian weights, with its divergence, as one step of differentiation.

By the kernels of `dubio.native.weights`. The products write the gradients of μ and ρ, and the
kernels write over them, so that there is one pass over the weights forwards and one backwards.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.layers import streamed
from dubio.layers.centered_prior import CenteredPrior
from dubio.layers.streamed import known_prior, weights_in_turn
from dubio.native import matmul
from dubio.native import weights as kernels
from dubio.native.masked import serves
from dubio.native.stream import Stream
from dubio.native.weights import CHANGE, NO_PRIOR, SAMPLE, SQUARE
from dubio.noise.derivative import Derivative


class Rows(ABC):
    """How rows get noise of their own: y = join(xμᵀ + b, turn(x)·Vᵀ + v) for V made of weights.

    Attributes:
        kind: What V is: the changes σε or the variances σ².
        squared: Whether what meets V is squared.
    """

    kind: int
    squared: bool

    @abstractmethod
    def turn(self, x: Tensor) -> Tensor:
        """Return the inputs that meet V, before they are squared."""

    @abstractmethod
    def join(self, mean: Tensor, inner: Tensor) -> Tensor:
        """Return the outputs, from those of the means and those of V."""

    @abstractmethod
    def joined(self, mean: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same without a graph, and the derivative of the outputs by those of V."""

    @abstractmethod
    def add_of_inputs(self, of_x: Tensor, x: Tensor, g: Tensor) -> None:
        """Add the gradient of x, from that of what has met V."""


@final
class LocalRows(Rows):
    """N(xμ, x²σ²): local reparameterisation."""

    kind, squared = SQUARE, True

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def turn(self, x: Tensor) -> Tensor:
        """Return x itself."""
        return x

    def join(self, mean: Tensor, inner: Tensor) -> Tensor:
        """Mean + √variance·ζ."""
        return streamed.add_local(self._stream, mean, inner)

    def joined(self, mean: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
        """Beside them, ζ/(2√variance)."""
        slope = torch.empty_like(inner)
        return kernels.local(self._stream, mean, inner, slope), slope

    def add_of_inputs(self, of_x: Tensor, x: Tensor, g: Tensor) -> None:
        """2x·g."""
        of_x.addcmul_(x, g, value=2)


@final
class FlippedRows(Rows):
    """Signs of the inputs and outputs of every row: flipout."""

    kind, squared = CHANGE, False

    def __init__(self, of_inputs: Tensor, of_outputs: Tensor) -> None:
        self._of_inputs = of_inputs
        self._of_outputs = of_outputs

    def turn(self, x: Tensor) -> Tensor:
        """s·x."""
        return x * self._of_inputs

    def join(self, mean: Tensor, inner: Tensor) -> Tensor:
        """Mean + r·change."""
        return torch.addcmul(mean, inner, self._of_outputs)

    def joined(self, mean: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
        """Beside them, r."""
        return self.join(mean, inner), self._of_outputs

    def add_of_inputs(self, of_x: Tensor, x: Tensor, g: Tensor) -> None:
        """g·s."""
        of_x.addcmul_(g, self._of_inputs)


def gaussian_linear(
    stream: Stream,
    rows: Rows | None,
    prior: CenteredPrior | None,
    x: Tensor,
    rho: Tensor,
    means: Sequence[Tensor],
) -> tuple[Tensor, Tensor | None]:  # (B, outs)
    """Return the outputs, and the divergence from a Gaussian prior if there is one.

    Args:
        stream: The noise of the weights, one draw.
        rows: The noise of rows; None for one draw of weights for all.
        prior: The prior, or None for no divergence.
        x: The inputs.  # (B, ins)
        rho: ρ of weight and bias, in one row.
        means: The weight, and the bias if there is one.
    """
    y, total = _GaussianLinear.apply(stream, rows, prior, x, rho, *means)
    return y, total


@final
class _GaussianLinear(Derivative):
    """(x, ρ, μ) ↦ the outputs and the divergence; the gradients are those of `streamed`."""

    @staticmethod
    def forward(
        ctx: Any,
        stream: Stream,
        rows: Rows | None,
        centered: CenteredPrior | None,
        x: Tensor,
        rho: Tensor,
        *means: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        kind, prior, value = _kind(rows), known_prior(centered), 0.0
        made = [torch.empty_like(mean) for mean in means]
        for of, out in zip(weights_in_turn([rho], means), made, strict=True):
            value += kernels.sample(kind, stream, of, prior, out)
        slope = None
        if rows is None:
            y = matmul.linear(x, *made)
        else:
            inner = matmul.linear(rows.turn(x), *made, squared=rows.squared)
            y, slope = rows.joined(matmul.linear(x, *means), inner)
        ctx.set_materialize_grads(False)
        ctx.stream, ctx.rows, ctx.centered = stream, rows, centered
        ctx.save_for_backward(x, made[0], slope, rho, *means)
        if centered is None:
            return y, None
        return y, torch.full((), value, dtype=torch.float32, device="cpu")

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, of_total: Tensor | None) -> tuple[Any, ...]:
        x, made, slope, rho, *means = ctx.saved_tensors
        given = [each for each in (g, of_total) if each is not None]
        if torch.is_grad_enabled() or not all(map(serves, given)):  # once more, or many at once
            return None, None, None, *_again(ctx, g, of_total)
        rows: Rows | None = ctx.rows
        prior = NO_PRIOR if of_total is None else known_prior(ctx.centered)
        factor = 0.0 if of_total is None else of_total.item()
        of_means: list[Tensor] = [torch.empty_like(mean) for mean in means]
        of_rho, of_x = torch.empty_like(rho), None
        own: Sequence[Tensor | None] = [None] * len(means)  # gradients of what was made
        through = own
        if g is not None:
            g = g.contiguous()
            matmul.write_of_weight(*_pair(of_means), g, x)
            own = of_means
            if ctx.needs_input_grad[3]:
                of_x = matmul.of_inputs(g, made if rows is None else means[0])
            if rows is not None:
                of_inner, through = g * slope, of_means
                own = split = _split(of_rho, means)
                matmul.write_of_weight(*_pair(split), of_inner, rows.turn(x), squared=rows.squared)
                if of_x is not None:
                    rows.add_of_inputs(of_x, x, matmul.of_inputs(of_inner, made))
        for of, one, by, of_mean in zip(
            weights_in_turn([rho], means), own, through, of_means, strict=True
        ):
            kernels.write_slopes(
                _kind(rows), ctx.stream, of, prior, factor, (one, by), of_mean, of_rho
            )
        needed = ctx.needs_input_grad[5:]
        return (
            None,
            None,
            None,
            of_x,
            of_rho,
            *[each if need else None for each, need in zip(of_means, needed, strict=True)],
        )


def _kind(rows: Rows | None) -> int:
    return SAMPLE if rows is None else rows.kind


def _pair(given: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Return what belongs to the weight, and to the bias if there is one."""
    return given[0], given[1] if len(given) > 1 else None


def _split(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return a row in the shapes of weight and bias."""
    parts = row.split([each.numel() for each in like])
    return [part.view(each.shape) for part, each in zip(parts, like, strict=True)]


def _again(ctx: Any, g: Tensor | None, of_total: Tensor | None) -> Sequence[Tensor | None]:
    """Return the gradients with a graph of their own, or many at once, by autograd."""
    x, _, _, rho, *means = ctx.saved_tensors
    further, rows = torch.is_grad_enabled(), ctx.rows
    outputs: list[tuple[Tensor, Tensor]] = []
    with torch.enable_grad():
        if g is not None:
            made = streamed.draw(_kind(rows), ctx.stream, None, [rho], means)[1]
            if rows is None:
                y = F.linear(x, *made)
            else:
                turned = rows.turn(x).square() if rows.squared else rows.turn(x)
                y = rows.join(F.linear(x, *means), F.linear(turned, *made))
            outputs.append((y, g))
        if of_total is not None:
            outputs.append((streamed.divergence(ctx.centered, rho, means), of_total))
    asked = ctx.needs_input_grad[3:]
    wanted = [each for each, want in zip((x, rho, *means), asked, strict=True) if want]
    values, gradients = zip(*outputs, strict=True)
    found = iter(
        torch.autograd.grad(values, wanted, gradients, create_graph=further, allow_unused=True)
    )
    return [next(found) if want else None for want in asked]
