"""Freeze a network for serving: plain layers, and noise that is no longer learned."""

import copy
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from dubio.layers.bayesian import Bayesian, bayesian_layers
from dubio.layers.masked import Masked
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, Mask
from dubio.noise import inputs
from dubio.noise.generators import unmoved
from dubio.noise.inputs import Inputs
from dubio.noise.run import no_gradients

_BINARY = (Bernoulli, Concrete, LearnableBernoulli)
_BY_CHANNEL: dict[int, Callable[[float], nn.Module]] = {
    1: nn.Dropout1d,
    2: nn.Dropout2d,
    3: nn.Dropout3d,
}


def freeze(
    model: nn.Module,
    mode: Literal["mean", "sample"] = "mean",
    *,
    example: Inputs | None = None,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Return a copy of the network with plain layers where possible.

    - `Bayesian` layers become the layers in them, with means or one draw of their weights.
    - `Masked` layers become ``nn.Sequential(dropout=nn.Dropout(rate), layer=layer)`` with the
      learned rate, `nn.Dropout1d` to ``3d`` before convolutions, if that is the same noise: a
      binary mask with one rate, called once per pass, on rows of features or on images. Concrete
      masks become binary at the same rate.
    - All other masks stay and are no longer learned: those with a rate for each unit, Gaussian
      ones, those of sequences (one mask for all positions), of weights, and those called
      repeatedly. `dubio.export` writes them to a file that needs neither dubio nor torch.

    Args:
        model: The network, which is not changed.
        mode: Which weights of `Bayesian` layers to use: their means, or one draw.
        example: A batch, as for `dubio.predict`; needed if there are masks, to see their inputs.
        generator: Source of the draw; by default torch's global generator.

    Returns:
        A network without distributions on weights. Pruned weights are zero.
    """
    if mode not in ("mean", "sample"):
        raise ValueError(f"mode: expected 'mean' or 'sample', got {mode!r}")
    masks = {name: m for name, m in model.named_modules() if isinstance(m, Mask)}
    if masks and example is None:
        raise ValueError(
            f"example: expected a batch for a network with masks ({', '.join(masks)}), got none; "
            f"what they act on decides whether nn.Dropout does the same"
        )
    has_distributions = any(isinstance(module, Bayesian) for module in model.modules())
    if not masks and not has_distributions:
        raise ValueError(
            f"model: expected a network with Bayesian layers or masks, got {type(model).__name__} "
            f"without any; it is plain already"
        )
    frozen_model = copy.deepcopy(model)
    frozen: dict[nn.Module, nn.Module] = {}
    if has_distributions:
        for layer in bayesian_layers(frozen_model).values():
            frozen[layer] = _plain_layer(layer, mode, generator)
    for module in frozen_model.modules():
        if isinstance(module, Mask):
            module.requires_grad_(False)
    if masks and example is not None:
        for masked, call in _called_once(model, frozen_model, example).items():
            dropout = _dropout(masked, call)
            if dropout is not None:
                both = nn.Sequential(OrderedDict(dropout=dropout, layer=masked.layer))
                frozen[masked] = both.train(masked.training)
    for parent in list(frozen_model.modules()):
        for name, child in parent._modules.items():
            if child is not None and child in frozen:
                parent._modules[name] = frozen[child]
    return frozen.get(frozen_model, frozen_model)


def _plain_layer(module: Bayesian, mode: str, generator: torch.Generator | None) -> nn.Module:
    """Return the layer with the weights it is frozen at."""
    posterior = module.posterior()
    with torch.no_grad():
        if mode == "mean":
            weights = posterior.mean()
        else:
            weights = posterior.sample(torch.empty_like(module.rho).normal_(generator=generator))
        for own, weight in zip(module.layer.parameters(), weights, strict=True):
            own.copy_(weight)
    return module.layer


def _called_once(
    model: nn.Module, twin: nn.Module, example: Inputs
) -> dict[Masked, tuple[Any, ...]]:
    """Masked layers of a twin that are called once in a pass, each with its arguments.

    Layers with hooks, or with a mask that others use as well, are left out. The pass is one of
    another copy.
    """
    probe = copy.deepcopy(model).eval()
    calls: dict[nn.Module, list[tuple[Any, ...]]] = {}

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.setdefault(module, []).append((*args, *kwargs.values()))

    layers = [module for module in probe.modules() if isinstance(module, Masked)]
    uses = Counter(layer.mask for layer in layers)
    for layer in layers:
        if not (_hooked(layer) or _hooked(layer.mask)) and uses[layer.mask] == 1:
            layer.register_forward_pre_hook(note, with_kwargs=True)
    with no_gradients(), unmoved():
        inputs.call(probe, example)
    return {
        module: calls[before][0]
        for before, module in zip(probe.modules(), twin.modules(), strict=True)
        if isinstance(module, Masked) and len(calls.get(before, ())) == 1
    }


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _dropout(masked: Masked, args: tuple[Any, ...]) -> nn.Module | None:
    """Return the torch dropout with the same effect as a mask; None if there is none."""
    mask, layer = masked.mask, masked.layer
    if not isinstance(mask, _BINARY) or mask.units > 1 or len(args) > 1:
        return None
    (x,) = args
    drop = mask.site_rate()
    if isinstance(layer, nn.Linear):
        return nn.Dropout(drop) if x.dim() == 2 else None
    if isinstance(layer, _ConvNd):
        axes = len(layer.kernel_size)
        return _BY_CHANNEL[axes](drop) if x.dim() == 2 + axes else None
    return None
