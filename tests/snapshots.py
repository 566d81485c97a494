"""Everything about a network and about torch that a prediction must leave as it was."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack


@dataclass(frozen=True)
class Snapshot:
    """The state of a network and of the process.

    Attributes:
        flags: Train or eval, by module.
        attributes: Names and identities of what every module holds, hooks included.
        tensors: Identity, number of writes and value of every parameter and buffer.
        process: Generators, grad mode and active torch function modes.
    """

    flags: dict[str, bool]
    attributes: dict[str, Any]
    tensors: dict[str, tuple[int, int, bytes]]
    process: tuple[Any, ...]


def snapshot(network: nn.Module) -> Snapshot:
    """The state now; equal to another if nothing has changed in between."""
    tensors = (*network.named_parameters(), *network.named_buffers())
    return Snapshot(
        {name: module.training for name, module in network.named_modules()},
        {name: _attributes(module) for name, module in network.named_modules()},
        {name: (id(tensor), tensor._version, _value(tensor)) for name, tensor in tensors},
        (
            torch.get_rng_state().numpy().tobytes(),
            random.getstate(),
            str(np.random.get_state()),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
            _len_torch_function_stack(),
        ),
    )


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Identities of plain attributes, contents of dicts such as those of hooks."""
    return {
        name: {key: id(entry) for key, entry in value.items()}
        if isinstance(value, dict)
        else id(value)
        for name, value in (*vars(module).items(), ("forward", type(module).forward))
    }


def _value(tensor: Tensor) -> bytes:
    return tensor.detach().double().numpy().tobytes()
