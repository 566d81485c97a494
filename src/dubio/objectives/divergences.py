"""The divergences of a network, added to a loss in one step of the automatic differentiation."""

from collections.abc import Mapping, Sequence
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
        known: Those whose derivatives are known.
    """

    tensors: list[Tensor]
    known: list[KnownSlopes]

    @classmethod
    def of(cls, together: Mapping[type[Stochastic], Sequence[Stochastic]], nll: Tensor) -> Self:
        """Ask the modules; for many networks at once, and without gradients, for tensors only."""
        known: list[KnownSlopes] = []
        if torch.is_grad_enabled() and not is_vectorised(nll):
            with torch.no_grad():
                for kind, modules in together.items():
                    known += kind.kl_slopes(modules)
        done = {module for found in known for module in found.modules}
        modules = [module for group in together.values() for module in group]
        return cls([module.kl() for module in modules if module not in done], known)

    def value(self, device: torch.device) -> Tensor:
        """Return their sum."""
        values = [*self.tensors, *(found.value for found in self.known)]
        if len(values) == 1:
            return values[0].detach()
        with torch.no_grad():
            return torch.stack([value.to(device) for value in values]).sum()


def add_divergences(
    nll: Tensor, factor: float, draws: Sequence[Divergence]
) -> tuple[Tensor, Tensor]:
    """Return the loss nll + factor·KL, and KL without a graph, averaged over some draws."""
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
    inputs = [tensor for found in known for tensor in found.tensors]
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
        known: list[KnownSlopes],
        nll: Tensor,
        *inputs: Tensor,
    ) -> Tensor:
        ctx.factor, ctx.known = factor / draws, known
        ctx.shape = len(inputs) - sum([len(found.tensors) for found in known])
        ctx.devices = [tensor.device for tensor in inputs[: ctx.shape]]
        ctx.versions = [_version(factors[0]) for found in known for factors in found.slopes]
        return nll + kl * factor

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        (g,) = gradients
        scaled = g * ctx.factor
        if ctx.versions != [_version(f[0]) for found in ctx.known for f in found.slopes]:
            raise RuntimeError(
                "ELBO: expected weights as they were when the loss was computed, got others, which "
                "were written over before backward(); call backward() before the optimizer's step"
            )
        of_tensors = [scaled.to(device) for device in ctx.devices]
        slopes: list[Tensor] = []
        for found in ctx.known:
            each = found.slopes
            if torch.is_grad_enabled():  # to be differentiated once more
                total = torch.stack([module.kl() for module in found.modules]).sum()
                again = torch.autograd.grad(total, found.tensors, create_graph=True)
                each = [(slope,) for slope in again]
            slopes += [_product(factors, scaled) for factors in each]
        return None, None, None, None, g, *of_tensors, *slopes


def _product(factors: tuple[Tensor, ...], scale: Tensor) -> Tensor:
    *large, last = factors
    same = last.dtype == scale.dtype and last.device == scale.device
    product = last * (scale if same else scale.to(last.device, last.dtype))
    for factor in large:
        product = factor * product
    return product


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
