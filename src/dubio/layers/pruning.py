"""Pruning by signal-to-noise ratio: weights that are more noise than value are set to zero."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from dubio.layers.bayesian import Bayesian, bayesian_layers
from dubio.report.tables import table


@final
@dataclass(frozen=True)
class PrunedTensor:
    """The weights left in one tensor after pruning.

    Attributes:
        name: Name of the tensor in the network.
        kept: Number of weights left.
        total: Number of weights before.
    """

    name: str
    kept: int
    total: int

    @property
    def share(self) -> float:
        """The share of weights left."""
        return self.kept / self.total


@final
class Pruned(list[PrunedTensor]):
    """The weights left after pruning, tensor by tensor; prints as a table."""

    @property
    def share(self) -> float:
        """The share of all weights left."""
        return sum(row.kept for row in self) / sum(row.total for row in self)

    def __str__(self) -> str:
        total = PrunedTensor("all", sum(row.kept for row in self), sum(row.total for row in self))
        return table(
            ("weights", "kept", "of", "share"),
            [(r.name, str(r.kept), str(r.total), f"{r.share:.1%}") for r in [*self, total]],
        )

    __repr__ = __str__


def prune(model: nn.Module, fraction: float, *, per_layer: bool = False) -> Pruned:
    """Set the weights with the lowest signal-to-noise ratio |μ|/σ to zero, permanently.

    Their means and deviations become zero, so they are zero in every draw, get no gradient and do
    not count in the KL (Clark et al. 2022, section 4.2; Blundell et al. 2015 section 5.1). The
    network is changed in place. Weights pruned before stay pruned and count towards the fraction.

    Args:
        model: A network with `Bayesian` layers.
        fraction: The share of weights, biases included, that are zero afterwards.
        per_layer: Whether each layer loses that share, instead of ranking all weights together.

    Returns:
        The weights left in each tensor.
    """
    if not (isinstance(fraction, Real) and 0 <= fraction <= 1):
        raise ValueError(f"fraction: expected a share between 0 and 1, got {fraction!r}")
    layers = bayesian_layers(model)
    for name, layer in layers.items():
        _check_own_weights(name, layer.layer)
    ratios = {name: _signal_to_noise(layer) for name, layer in layers.items()}
    groups = [[name] for name in layers] if per_layer else [list(layers)]
    for group in groups:
        kept = _largest(torch.cat([ratios[name] for name in group]), fraction)
        sizes = [len(ratios[name]) for name in group]
        for name, part in zip(group, kept.split(sizes), strict=True):
            _leave(layers[name], part)
    return Pruned(
        PrunedTensor(name, int(kept.sum()), kept.numel()) for name, kept in _by_weight(layers)
    )


@final
class SparseWeights(dict[str, Tensor]):
    """Weights in compressed sparse rows (CSR), by name; `dense` returns them in their shapes.

    A tensor with more than two axes is a matrix of its first axis by all others; one with a single
    axis is one row. Indices have 32 bits: with a share s of the weights left, a float32 matrix
    takes 2s of the memory of a dense one, plus 4 bytes per row.
    """

    def __init__(self, weights: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]) -> None:
        super().__init__(weights)
        self._shapes = dict(shapes)

    @property
    def nbytes(self) -> int:
        """Bytes of values and indices."""
        return sum(
            part.nbytes
            for matrix in self.values()
            for part in (matrix.values(), matrix.col_indices(), matrix.crow_indices())
        )

    def dense(self) -> dict[str, Tensor]:
        """Return all weights for ``dubio.freeze(model).load_state_dict(…, strict=False)``."""
        return {name: matrix.to_dense().view(self._shapes[name]) for name, matrix in self.items()}


def sparse_weights(model: nn.Module) -> SparseWeights:
    """Return the means of all remaining weights as sparse matrices.

    The names are those in the ``state_dict`` of ``dubio.freeze(model)``.
    """
    layers = bayesian_layers(model)
    means = [mean.detach() for layer in layers.values() for mean in layer.means().values()]
    kept = dict(_by_weight(layers))
    return SparseWeights(
        {
            name: _compressed(mean, there)
            for (name, there), mean in zip(kept.items(), means, strict=True)
        },
        {name: there.shape for name, there in kept.items()},
    )


def _compressed(weights: Tensor, kept: Tensor) -> Tensor:
    """Return those weights that are kept, in compressed rows."""
    rows = weights.flatten(1) if weights.dim() > 1 else weights.view(1, -1)
    kept = kept.view(rows.shape)
    ends = kept.sum(1).cumsum(0)
    index = torch.int32 if kept.numel() < 2**31 else torch.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.cat([ends.new_zeros(1), ends]).to(index),
            kept.nonzero()[:, 1].to(index),
            rows[kept],
            rows.shape,
            check_invariants=True,
        )


def _check_own_weights(name: str, layer: nn.Module) -> None:
    """Raise an error for weights that are computed from others."""
    for module in layer.modules():
        by_hook = any(isinstance(value, Tensor) for value in vars(module).values())
        if by_hook or is_parametrized(module):
            raise ValueError(
                f"{name or 'model'}: expected weights that can be zero one by one, got those of a "
                f"{type(module).__name__}, which are computed from others (weight_norm or another "
                f"parametrization); remove it before the layer becomes Bayesian"
            )


def _signal_to_noise(layer: Bayesian) -> Tensor:  # (weights,)
    """Return |μ|/σ, and −1 for weights that are not there."""
    with torch.no_grad():
        means = torch.cat([mean.flatten() for mean in layer.means().values()])
        deviations = torch.cat([sigma.flatten() for sigma in layer.deviations().values()])
        ratio = means.abs().to(deviations.dtype) / deviations
        return ratio if layer.kept is None else ratio.where(layer.kept, -1.0)


def _largest(ratios: Tensor, fraction: float) -> Tensor:
    """Return which values are left without the smallest share; ties by position."""
    kept = torch.ones_like(ratios, dtype=torch.bool)
    kept[ratios.argsort(stable=True)[: round(fraction * len(ratios))]] = False
    return kept & (ratios >= 0)


def _leave(layer: Bayesian, kept: Tensor) -> None:
    """Set all other weights to zero."""
    if kept.all():
        return
    layer.kept = kept.clone().to(layer.rho.device)  # not a view, which would hold all layers'
    layer.settle()


def _by_weight(layers: dict[str, Bayesian]) -> Iterator[tuple[str, Tensor]]:
    """Yield which weights are left, by the name of the tensor."""
    for name, layer in layers.items():
        posterior = layer.posterior()
        kept = torch.ones_like(layer.rho, dtype=torch.bool) if layer.kept is None else layer.kept
        for key, part in zip(layer.means(), posterior.split(kept), strict=True):
            yield f"{name}.{key}" if name else key, part
