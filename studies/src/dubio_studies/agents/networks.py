"""Networks that give a value for each action."""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import nn
from torch.nn.utils import skip_init

import dubio
from dubio import decide, masks

Kind = Literal["plain", "dropout", "concrete", "bernoulli", "prior"]
"""Without noise; dropout with a fixed rate; learned rates, Concrete and learnable Bernoulli; with a
randomised prior function."""


def q_network(
    kind: Kind,
    sizes: tuple[int, ...],
    *,
    seed: int,
    drop: float = 0.1,
    length_scale: float = 1.0,
    prior_scale: float = 1.0,
) -> nn.Module:
    """Layers with rectifiers between them, and noise after every rectifier.

    Args:
        kind: Of noise.
        sizes: Inputs, units of hidden layers, actions.
        seed: Of the weights, which start as those of ConvNetJS.
        drop: Fixed dropout rate, and initial learned rate.
        length_scale: Of the prior of weights under learned rates.
        prior_scale: β of prior functions.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind: expected one of {', '.join(get_args(Kind))}, got {kind!r}.")
    if len(sizes) < 2 or min(sizes) < 1:
        raise ValueError(
            f"sizes: expected inputs, hidden units and actions, each at least 1, got {sizes}."
        )
    if kind == "prior":
        net, prior = (q_network("plain", sizes, seed=s) for s in (2 * seed, 2 * seed + 1))
        return decide.PriorFunction(net, prior_scale, prior=prior)
    learned: dict[str, Callable[[], masks.Mask]] = {
        "concrete": lambda: masks.Concrete(drop=drop),
        "bernoulli": lambda: masks.LearnableBernoulli(drop=drop),
    }
    layers: list[nn.Module] = []
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        linear = skip_init(nn.Linear, inputs, outputs)  # weights come below, from the seed
        if number and kind == "dropout":
            layers.append(nn.Dropout(drop))
        if number and kind in learned:
            layers.append(dubio.Masked(linear, learned[kind](), length_scale=length_scale))
        else:
            layers.append(linear)
        layers.append(nn.ReLU())
    net = nn.Sequential(*layers[:-1])
    start_as_published(net, seed)
    return net


@torch.no_grad()
def start_as_published(net: nn.Module, seed: int) -> None:
    """Weights from N(0, 1/inputs), biases 0.1 before rectifiers and 0 at the end (ConvNetJS)."""
    generator = torch.Generator().manual_seed(seed)
    linear = [module for module in net.modules() if isinstance(module, nn.Linear)]
    for layer in linear:
        layer.weight.normal_(0.0, layer.in_features**-0.5, generator=generator)
        layer.bias.fill_(0.0 if layer is linear[-1] else 0.1)
