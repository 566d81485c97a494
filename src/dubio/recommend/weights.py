"""Initial weights."""

import torch
from torch import nn


def dense(features: int, outputs: int) -> nn.Linear:
    """Return a linear layer whose weights are still to be set."""
    return nn.Linear(features, outputs, device="meta").to_empty(device="cpu")


def is_rate(name: str) -> bool:
    """Return whether a parameter of this name belongs to a mask."""
    return ".mask." in f".{name}"


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Weights by Xavier's uniform law and biases of zero, as Liang et al. 2018.

    The rates of masks stay as they are.
    """
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if is_rate(name):
                continue
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                parameter.zero_()
