"""Plain layers back: a network with distributions on weights, frozen at one set of them."""

import copy
from typing import Literal

import torch
from torch import nn

from dubio.layers.bayesian import Bayesian, bayesian_layers


def freeze(
    model: nn.Module,
    mode: Literal["mean", "sample"] = "mean",
    *,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """A copy of the network with plain layers in the place of `Bayesian` ones.

    Args:
        model: The network, which stays as it is.
        mode: Which weights: their means, or one draw.
        generator: Source of the draw; by default torch's own.

    Returns:
        A network without distributions on weights. Weights that were pruned are zero in it.
    """
    if mode not in ("mean", "sample"):
        raise ValueError(f"mode: expected 'mean' or 'sample', got {mode!r}.")
    model = copy.deepcopy(model)
    frozen: dict[nn.Module, nn.Module] = {
        module: _frozen(module, mode, generator) for module in bayesian_layers(model).values()
    }
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child is not None and child in frozen:
                parent._modules[name] = frozen[child]
    return frozen.get(model, model)


def _frozen(module: Bayesian, mode: str, generator: torch.Generator | None) -> nn.Module:
    """The layer with the weights it is frozen at."""
    posterior = module.posterior()
    with torch.no_grad():
        if mode == "mean":
            weights = posterior.mean()
        else:
            weights = posterior.sample(torch.empty_like(module.rho).normal_(generator=generator))
        for own, weight in zip(module.layer.parameters(), weights, strict=True):
            own.copy_(weight)
    return module.layer
