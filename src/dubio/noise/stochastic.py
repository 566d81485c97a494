"""Modules with noise of their own: they draw it through the noise around them, and have a KL."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from dubio.noise.interceptor import current_interceptor


class Stochastic(nn.Module, ABC):
    """A module whose parameters have a distribution instead of a value."""

    @property
    def kl_is_exact(self) -> bool:
        """Whether the divergence is a function of the parameters alone, without any noise."""
        return True

    def named_parts(self) -> Iterable[tuple[str, nn.Module | nn.Parameter]]:
        """What its distribution is about, and can be that of no other module."""
        return self.named_children()

    @abstractmethod
    def kl(self) -> Tensor:
        """Divergence of its distribution from the prior, in nats, summed over parameters."""


def kl(model: nn.Module) -> Tensor:
    """The divergence of all stochastic modules of a network, each counted once."""
    check_apart(model.modules())
    parts = [module.kl() for module in model.modules() if isinstance(module, Stochastic)]
    if not parts:
        raise ValueError(
            f"model: expected a network with stochastic modules such as dubio.Masked, got "
            f"{type(model).__name__} without any; convert it, or leave out the KL."
        )
    return torch.stack([part.to(parts[0].device) for part in parts]).sum()


def check_apart(modules: Iterable[nn.Module]) -> None:
    """Complain about what would be counted in two divergences, and be drawn twice."""
    owners: dict[nn.Module | nn.Parameter, Stochastic] = {}
    for owner in (module for module in modules if isinstance(module, Stochastic)):
        for name, part in owner.named_parts():
            if owners.setdefault(part, owner) is not owner:
                raise ValueError(
                    f"model: expected stochastic modules with parts of their own, but one "
                    f"{type(part).__name__} is the {name} of two of them, and would count twice; "
                    f"use one {type(owner).__name__} in both places. For masks that share a rate "
                    f"there is mask.tied(); of layers that share weights make one Bayesian."
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
    owner: nn.Module | None = None,
) -> Tensor | None:
    """The noise of a module at work on x: None when it is to behave like its mean.

    Under a `dubio.Noise` it is that noise, the same however often the module is called in a pass.
    Otherwise it is fresh in train mode, and none in eval mode.

    Args:
        module: The module, which has one such noise.
        distribution: What to draw; ``bernoulli`` is a fair coin.
        shape: Shape of the noise without sharing.
        x: The tensor that it acts on.
        rows: The axis of the batch in ``shape``; None for noise of weights, which has none.
        units: The axis of the units in ``shape``.
        rate: Gives the dropout rate, for the table of sites.
        owner: The module that is the site, for all noises of its parts; by default the module.
    """
    interceptor = current_interceptor()
    if interceptor is not None:
        return interceptor.own_noise(
            module, distribution, torch.Size(shape), x, rows, units, rate, owner or module
        )
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
