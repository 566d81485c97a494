"""The divergences of a network, added to a loss in one step of the automatic differentiation."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dubio.noise.derivative import Derivative
from dubio.noise.vectorised import is_vectorised


def add_divergences(
    nll: Tensor, factor: float, draws: Sequence[Sequence[Tensor]]
) -> tuple[Tensor, Tensor]:
    """Return the loss nll + factor·KL, and KL without a graph, averaged over some draws."""
    if not draws:
        return nll, nll.new_zeros(())
    divergences = [each for draw in draws for each in draw]
    if is_vectorised(nll) or not torch.is_grad_enabled():
        total = torch.stack(divergences).sum() / len(draws)
        return nll + total * factor, total.detach()
    kl = divergences[0].detach()
    for each in divergences[1:]:
        kl = kl.to(nll.device) + each.detach().to(nll.device)
    kl = kl if len(draws) == 1 else kl / len(draws)
    loss: Tensor = _Sum.apply(factor, len(draws), kl, nll, *divergences)
    return loss, kl


class _Sum(Derivative):
    """nll + factor·KL, where KL = (Σ divergences)/draws."""

    @staticmethod
    def forward(
        ctx: Any, factor: float, draws: int, kl: Tensor, nll: Tensor, *divergences: Tensor
    ) -> Tensor:
        ctx.factor = factor / draws
        ctx.devices = [each.device for each in divergences]
        return nll + kl * factor

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        (g,) = gradients
        scaled = g * ctx.factor
        return None, None, None, g, *[scaled.to(device) for device in ctx.devices]
