"""`Masked`: a layer with dropout of its inputs, and the KL that needs both."""

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from dubio.masks.mask import Mask
from dubio.stochastic import Stochastic


@final
class Masked(Stochastic):
    """A weight layer behind a mask of its inputs: a distribution over its weights.

    The mask acts on the features of a linear layer, the channels of a convolution, the features
    of every time step of a recurrent layer (one mask per sequence, Gal 2016), and the embedding of
    query, key and value of attention. Biases keep a flat prior.

    Args:
        layer: Linear, Conv1–3d, ConvTranspose1–3d, LSTM, GRU, RNN or MultiheadAttention.
        mask: What multiplies its inputs.
        length_scale: Length scale ℓ of the prior N(0, 1/ℓ²) on each weight.
    """

    def __init__(self, layer: nn.Module, mask: Mask, *, length_scale: float = 1e-2) -> None:
        super().__init__()
        if not isinstance(layer, nn.Linear | _ConvNd | nn.RNNBase | nn.MultiheadAttention):
            raise TypeError(
                f"layer: expected Linear, Conv, ConvTranspose, LSTM, GRU, RNN or "
                f"MultiheadAttention, got {type(layer).__name__}; mask the layers inside it."
            )
        features = len(_squared_norms(layer))
        if mask.units not in (1, features):
            raise ValueError(
                f"mask: expected units=1 or units={features} for this {type(layer).__name__}, "
                f"got units={mask.units}."
            )
        if length_scale < 0:
            raise ValueError(f"length_scale: expected a number >= 0, got {length_scale}.")
        self.layer = layer
        self.mask = mask
        self.length_scale = length_scale

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The layer's output for masked inputs."""
        layer = self.layer
        if isinstance(layer, nn.MultiheadAttention):
            return self._attend(x, *args, **kwargs)
        if not isinstance(x, Tensor):
            raise TypeError(
                f"Masked({type(layer).__name__}): expected a tensor, got {type(x).__name__}; "
                f"pad sequences instead of packing them."
            )
        axis = -1
        if isinstance(layer, _ConvNd):
            axis = -1 - len(layer.kernel_size)
        rows = 1 if isinstance(layer, nn.RNNBase) and not layer.batch_first and x.dim() > 2 else 0
        return layer(self.mask(x, axis=axis, rows=rows), *args, **kwargs)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
        assert isinstance(self.layer, nn.MultiheadAttention)
        rows = 0 if self.layer.batch_first or query.dim() < 3 else 1
        masked: dict[int, Tensor] = {}
        for x in (query, key, value):
            if id(x) not in masked:
                masked[id(x)] = self.mask(x, rows=rows)
        return self.layer(masked[id(query)], masked[id(key)], masked[id(value)], *args, **kwargs)

    def kl(self) -> Tensor:
        """Divergence of the masked weights from their prior, by the formula of the mask."""
        norms = _squared_norms(self.layer)
        weights = sum(weight.numel() for weight in _input_weights(self.layer))
        return self.mask.kl(norms, self.length_scale, weights // len(norms))


def _input_weights(layer: nn.Module) -> list[Tensor]:
    """The weights that the masked inputs meet."""
    if isinstance(layer, nn.RNNBase):
        return [w for name, w in layer.named_parameters() if name.startswith("weight_ih_l0")]
    if isinstance(layer, nn.MultiheadAttention):
        if layer.in_proj_weight is not None:
            return [layer.in_proj_weight]
        raise TypeError(
            "layer: expected a MultiheadAttention with kdim = vdim = embed_dim, whose query, key "
            "and value have the same features; mask its projections by layers of their own."
        )
    assert isinstance(layer, nn.Linear | _ConvNd)
    return [layer.weight]


def _squared_norms(layer: nn.Module) -> Tensor:  # (features,)
    """Squared norm of the weights that each input unit feeds."""
    (first, *others) = _input_weights(layer)
    if isinstance(layer, _ConvTransposeNd):
        return first.square().flatten(1).sum(1)
    if isinstance(layer, _ConvNd):
        per_group = first.square().flatten(2).sum(2).unflatten(0, (layer.groups, -1))
        joined: Tensor = per_group.sum(1).flatten()  # (groups, out, in) -> (groups · in)
        return joined
    return torch.stack([weight.square().sum(0) for weight in (first, *others)]).sum(0)
