"""Modules with their own noise, drawn from the active noise context, and a KL."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from dubio.native.masked import serves
from dubio.native.stream import Stream
from dubio.noise.requests import Request
from dubio.noise.run import Pass, current_pass
from dubio.noise.undrawn import Undrawn, drawn


class Noisy(nn.Module):
    """A module that has noise of its own."""

    def site_rate(self) -> float | None:
        """Return its dropout rate, for the table of sites; None where there is no such number."""
        return None


class Stochastic(Noisy, ABC):
    """A module whose parameters have a distribution instead of a value."""

    @property
    def kl_is_exact(self) -> bool:
        """Whether the divergence depends on the parameters only, not on noise."""
        return True

    def named_parts(self) -> Iterable[tuple[str, nn.Module | nn.Parameter]]:
        """Return the modules or parameters that have the distribution, by name."""
        return self.named_children()

    @classmethod
    def draw_together(cls, modules: Sequence[Self], running: Pass) -> None:
        """Draw noise for several modules of this class before a pass of an objective."""

    @abstractmethod
    def kl(self) -> Tensor:
        """Return the divergence from the prior, in nats, summed over parameters."""


def kl(model: nn.Module) -> Tensor:
    """Return the summed divergence of all stochastic modules of a network, each counted once."""
    check_apart(model.modules())
    parts = [module.kl() for module in model.modules() if isinstance(module, Stochastic)]
    if not parts:
        raise ValueError(
            f"model: expected a network with stochastic modules such as dubio.Masked, got "
            f"{type(model).__name__} without any; convert it, or leave out the KL"
        )
    return torch.stack([part.to(parts[0].device) for part in parts]).sum()


def check_apart(modules: Iterable[nn.Module]) -> None:
    """Raise an error for parts that would be counted and drawn twice."""
    owners: dict[nn.Module | nn.Parameter, Stochastic] = {}
    for owner in (module for module in modules if isinstance(module, Stochastic)):
        for name, part in owner.named_parts():
            if owners.setdefault(part, owner) is not owner:
                raise ValueError(
                    f"model: expected stochastic modules with parts of their own, but one "
                    f"{type(part).__name__} is the {name} of two of them, and would count twice; "
                    f"use one {type(owner).__name__} in both places. To share a rate between masks "
                    f"use mask.tied(); of layers that share weights, make one Bayesian."
                )


def own_noise(
    module: Noisy, requests: tuple[Request, ...], x: Tensor, owner: Noisy | None = None
) -> tuple[Tensor, ...] | None:
    """Return the noise of a module at work on x: None when it is to behave like its mean.

    Under a `dubio.Noise` it is that noise, the same however often the module is called in a pass.
    Otherwise it is fresh in train mode, and none in eval mode.

    Args:
        module: The module that asks.
        requests: What it asks for, always the same.
        x: The tensor that it acts on.
        owner: The module that is the site, for all noises of its parts; by default the module.
    """
    running = current_pass()
    if running is not None:
        owner = module if owner is None else owner
        found = running.undrawn_noise(module, requests, x, owner.site_rate, owner)
        return None if found is None else tuple(map(drawn, found))
    return (
        tuple([drawn(fresh_noise(request, x)) for request in requests]) if module.training else None
    )


def own_stream(
    module: Noisy, request: Request, x: Tensor, owner: Noisy | None = None
) -> Stream | None:
    """Return the noise of a module as numbers that are not drawn yet.

    None where they must be drawn, by `own_noise`, or where there is no noise.
    """
    running = current_pass()
    if running is None or not running.draws_late(request):
        return None
    owner = module if owner is None else owner
    noises = running.undrawn_noise(module, (request,), x, owner.site_rate, owner)
    if noises is None or not isinstance(noises[0], Undrawn):
        return None
    return noises[0].stream


def fresh_noise(request: Request, x: Tensor) -> Tensor | Undrawn:
    """Noise of its own for a call, from torch's global generators."""
    if serves(x):
        key = torch.empty((), dtype=torch.int64, device="cpu").random_(-(2**63), None).item()
        return Undrawn(Stream(int(key) % 2**64, 0, 1), request.distribution, request.shape)
    dtype = torch.promote_types(x.dtype, torch.float32)
    noise = torch.empty(request.shape, dtype=dtype, device=x.device)
    match request.distribution:
        case "uniform":
            return noise.uniform_()
        case "normal":
            return noise.normal_()
        case "bernoulli":
            return noise.bernoulli_()
