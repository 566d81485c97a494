"""Modules with noise of their own: they draw it through the noise around them, and have a KL."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from dubio.interception.interceptor import current_interceptor


class Stochastic(nn.Module, ABC):
    """A module whose parameters have a distribution instead of a value."""

    @property
    def kl_is_exact(self) -> bool:
        """Whether the divergence is a function of the parameters alone, without any noise."""
        return True

    @abstractmethod
    def kl(self) -> Tensor:
        """Divergence of its distribution from the prior, in nats, summed over parameters."""


def kl(model: nn.Module) -> Tensor:
    """The divergence of all stochastic modules of a network, each counted once."""
    stochastic = [module for module in model.modules() if isinstance(module, Stochastic)]
    _check_apart(stochastic)
    parts = [module.kl() for module in stochastic]
    if not parts:
        raise ValueError(
            f"model: expected a network with stochastic modules such as dubio.Masked, got "
            f"{type(model).__name__} without any; convert it, or leave out the KL."
        )
    return torch.stack([part.to(parts[0].device) for part in parts]).sum()


def _check_apart(modules: list[Stochastic]) -> None:
    """Complain about a module with parameters that would be counted in two divergences."""
    owners: dict[nn.Module, Stochastic] = {}
    for owner in modules:
        for name, part in owner.named_children():
            if owners.setdefault(part, owner) is not owner:
                raise ValueError(
                    f"model: expected stochastic modules with parts of their own, but one "
                    f"{type(part).__name__} is the {name} of two of them, and would count twice; "
                    f"for masks that share a rate use mask.tied()."
                )


def is_silent(module: nn.Module) -> bool:
    """Whether a module is to behave like its mean: in eval mode, and without noise around it."""
    return not module.training and current_interceptor() is None


def own_noise(
    module: nn.Module,
    distribution: Literal["uniform", "normal", "bernoulli"],
    shape: tuple[int, ...],
    x: Tensor,
    *,
    rows: int | None,
    units: int,
    rate: Callable[[], float | None],
) -> Tensor | None:
    """The noise of a module at work on x: None when it is to behave like its mean.

    Under a `dubio.Noise` it is that noise, the same however often the module is called in a pass.
    Otherwise it is fresh in train mode, and none in eval mode.

    Args:
        module: The module, which is one site.
        distribution: What to draw; ``bernoulli`` is a fair coin.
        shape: Shape of the noise without sharing.
        x: The tensor that it acts on.
        rows: The axis of the batch in ``shape``; None for noise of weights, which has none.
        units: The axis of the units in ``shape``.
        rate: Gives the dropout rate, for the table of sites.
    """
    interceptor = current_interceptor()
    if interceptor is not None:
        return interceptor.own_noise(module, distribution, torch.Size(shape), x, rows, units, rate)
    if not module.training:
        return None
    noise = x.new_empty(shape, dtype=torch.promote_types(x.dtype, torch.float32))
    match distribution:
        case "uniform":
            return noise.uniform_()
        case "normal":
            return noise.normal_()
        case "bernoulli":
            return noise.bernoulli_()
