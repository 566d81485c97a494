"""The divergences of a network, added to a loss in one step of the automatic differentiation."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from dubio.noise.derivative import Derivative
from dubio.noise.stochastic import KnownSlopes, Stochastic
from dubio.noise.vectorised import is_vectorised


class Divergence(NamedTuple):
    """The divergences of all stochastic modules in one pass.

    Attributes:
        tensors: Those with a graph behind them.
        known: Those whose derivatives are known, and the modules they belong to.
    """

    tensors: list[Tensor]
    known: list[tuple[Stochastic, KnownSlopes]]

    @classmethod
    def of(cls, modules: Sequence[Stochastic], nll: Tensor) -> Self:
        """Ask the modules; for many networks at once, and without gradients, for tensors only."""
        if not torch.is_grad_enabled() or is_vectorised(nll):
            return cls([module.kl() for module in modules], [])
        with torch.no_grad():
            slopes = [module.kl_slopes() for module in modules]
        pairs = list(zip(modules, slopes, strict=True))
        return cls(
            [module.kl() for module, found in pairs if found is None],
            [(module, found) for module, found in pairs if found is not None],
        )

    def value(self, device: torch.device) -> Tensor:
        """Their sum."""
        values = [*self.tensors, *(found.value for _, found in self.known)]
        if len(values) == 1:
            return values[0].detach()
        with torch.no_grad():
            return torch.stack([value.to(device) for value in values]).sum()


def add_divergences(
    nll: Tensor, factor: float, draws: Sequence[Divergence]
) -> tuple[Tensor, Tensor]:
    """The loss nll + factor·KL, and KL without a graph, averaged over some draws."""
    if not draws:
        return nll, nll.new_zeros(())
    tensors = [tensor for draw in draws for tensor in draw.tensors]
    known = [one for draw in draws for one in draw.known]
    if is_vectorised(nll) or not torch.is_grad_enabled():
        total = torch.stack(tensors).sum() / len(draws)
        return nll + total * factor, total.detach()
    kl = draws[0].value(nll.device)
    for draw in draws[1:]:
        kl = kl + draw.value(nll.device)
    kl = kl if len(draws) == 1 else kl / len(draws)
    inputs = [tensor for _, found in known for tensor in found.tensors]
    loss: Tensor = _Sum.apply(factor, len(draws), kl, known, nll, *tensors, *inputs)
    return loss, kl


class _Sum(Derivative):
    """nll + factor·KL, where KL = (Σ divergences)/draws."""

    @staticmethod
    def forward(
        ctx: Any,
        factor: float,
        draws: int,
        kl: Tensor,
        known: list[tuple[Stochastic, KnownSlopes]],
        nll: Tensor,
        *inputs: Tensor,
    ) -> Tensor:
        ctx.factor, ctx.known = factor / draws, known
        ctx.shape = len(inputs) - sum([len(found.tensors) for _, found in known])
        ctx.devices = [tensor.device for tensor in inputs[: ctx.shape]]
        return nll + kl * factor

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        (g,) = gradients
        scaled = g * ctx.factor
        of_tensors = [scaled.to(device) for device in ctx.devices]
        slopes: list[Tensor] = []
        for module, found in ctx.known:
            if torch.is_grad_enabled():  # to be differentiated once more
                each = torch.autograd.grad(module.kl(), found.tensors, create_graph=True)
            else:
                each = found.slopes
            slopes += [_scaled(slope, scaled) for slope in each]
        return None, None, None, None, g, *of_tensors, *slopes


def _scaled(slope: Tensor, factor: Tensor) -> Tensor:
    same = slope.dtype == factor.dtype and slope.device == factor.device
    return slope * (factor if same else factor.to(slope.device, slope.dtype))
