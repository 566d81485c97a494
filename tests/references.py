"""What draws are compared with: the network itself, run once per draw."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import dubio

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def seeded(seed: int = 0) -> torch.Generator:
    """A generator at the start of its sequence."""
    return torch.Generator().manual_seed(seed)


def passes(
    network: nn.Module, x: Tensor, noise: dubio.Noise, select: str | None = None
) -> Tensor:  # (S, B, …)
    """The output under the noise of every draw, one plain pass each."""
    outputs = []
    for k in range(noise.draws):
        with gates_open(network), torch.no_grad(), noise[k]:
            outputs.append(chosen(network(x.clone()), select))
    return torch.stack(outputs)


@contextmanager
def gates_open(network: nn.Module) -> Iterator[None]:
    """Eval mode, except for what users write: there, gates may hide dropout."""
    flags = {module: module.training for module in network.modules()}
    for module in flags:
        module.training = not type(module).__module__.startswith("torch.nn.")
    yield
    for module, flag in flags.items():
        module.training = flag


def train_mode_loop(
    network: nn.Module,
    x: Tensor,
    draws: int,
    *,
    select: str | None = None,
    copies: int = 1,
    seed: int = 0,
) -> Tensor:  # (S, B, …)
    """What people write: ``network.train()`` with BatchNorm in eval mode, and a loop.

    Torch's own dropout under torch's own generator. Where rows do not meet, ``copies`` of every row
    in a pass are as many draws. The network is in train mode afterwards.
    """
    network.train()
    for module in network.modules():
        if isinstance(module, _BATCH_NORMS):
            module.eval()
    torch.manual_seed(seed)
    repeated = x.repeat(copies, *[1] * (x.dim() - 1))
    outputs = []
    with torch.no_grad():
        for _ in range(draws // copies):
            y = chosen(network(repeated.clone()), select)
            outputs.append(y.unflatten(0, (copies, len(x))))
    return torch.cat(outputs)


def chosen(output: Any, select: str | Callable[[Any], Tensor] | None) -> Tensor:
    """The selected part of an output."""
    if callable(select):
        return select(output)
    result: Tensor = output if select is None else output[select]
    return result
