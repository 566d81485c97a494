"""The M-step of variational EM: the noise precision that is best for a network as it is."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from dubio.draws.source import NetworkDraws
from dubio.likelihoods import Likelihood
from dubio.noise import inputs
from dubio.noise.inputs import Inputs, Network, Select
from dubio.noise.noise import Noise


def m_step(
    model: Network,
    likelihood: Likelihood,
    data: tuple[Inputs, Tensor] | Iterable[tuple[Inputs, Tensor]],
    *,
    draws: int = 100,
    generator: torch.Generator | None = None,
    chunk: int | None = None,
    select: Select = None,
) -> None:
    """Set the noise precision to the exact maximum of ELBO + log p(τ) on the training data.

    The network does not change, so this is what gradient steps on the precision alone converge to.
    Call it between epochs for EM, or once after training, as the last M-step of Gal et al. 2017
    (appendix D, ``CDropoutM``). Earlier predictions keep the precision they were made with.

    Args:
        model: A network with noise in it, or a function that calls networks.
        likelihood: The likelihood whose precision is set: `LearnedGaussian`, or another with
            `statistics` and `maximise`.
        data: All training data: a pair (inputs, targets), or a `DataLoader` of such pairs, which
            are moved to the network's device.
        draws: Number of stochastic passes for the expected error.
        generator: Source of the noise.
        chunk: Number of draws to compute at a time; by default as many as fit a memory budget.
        select: Which part of the network's output to use.
    """
    pairs = _Pairs(data, inputs.home_of(model))
    noise = Noise(draws, generator=generator)
    source = NetworkDraws(model, pairs, noise.numbers, likelihood.check, chunk, None, select, {})
    total = count = torch.zeros((), dtype=torch.float64)
    for _, outputs in source.chunks():
        part, targets = likelihood.statistics(outputs, pairs.targets)  # (S, *T), (*T)
        total = total + part.sum(0).cpu().double()
        count = count + len(part) * targets.cpu().double()
    likelihood.maximise(total / draws, count / draws)


class _Pairs:
    """Batches of inputs and targets, with the targets of the batch that is being worked on."""

    def __init__(self, data: Any, home: torch.device | None) -> None:
        self._home = home
        self._data: Any = [data] if isinstance(data, tuple) else data
        self.targets = torch.empty(0)

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        return map(self._look_at, self._data)

    def __len__(self) -> int:
        return len(self._data)

    def _look_at(self, pair: Any) -> tuple[Any, Tensor]:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], Tensor):
            raise TypeError(
                f"data: expected (inputs, targets), got {type(pair).__name__}; pass a pair, or "
                "a DataLoader of pairs"
            )
        self.targets = inputs.all_moved(pair[1], self._home)
        return pair[0], pair[1]
