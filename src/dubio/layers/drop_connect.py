"""`DropConnect`: a layer with a mask on each of its weights."""

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from dubio.layers.masked import check_mask
from dubio.layers.substitution import substitute
from dubio.layers.wrapping import Wrapping
from dubio.masks.mask import Mask


@final
class DropConnect(Wrapping):
    """A layer whose weights are dropped instead of its inputs (Wan et al. 2013).

    A pass has one mask that all rows and time steps share: one weight matrix per row would be slow
    and large. So a draw is one function of the input, whatever ``shared`` is. All weight matrices
    are masked: in a recurrent layer both those of inputs and of states (Merity et al. 2018). Biases
    are not masked and have a flat prior.

    Args:
        layer: Linear, Conv1–3d, ConvTranspose1–3d, LSTM, GRU or RNN.
        mask: The mask of its weights, with ``units=1`` or one rate for every weight.
        length_scale: Length scale ℓ of the prior N(0, 1/ℓ²) on each weight.
    """

    def __init__(self, layer: nn.Module, mask: Mask, *, length_scale: float = 1e-2) -> None:
        super().__init__()
        if not isinstance(layer, nn.Linear | _ConvNd | nn.RNNBase):
            raise TypeError(
                f"layer: expected Linear, Conv, ConvTranspose, LSTM, GRU or RNN, got "
                f"{type(layer).__name__}; treat the layers inside it"
            )
        check_mask(mask)
        for name in _names(layer):
            if name not in layer._parameters:
                raise TypeError(
                    f"layer: expected {name} as a parameter, got a {type(layer).__name__} that "
                    f"computes it (weight_norm, spectral_norm, pruning); remove that first"
                )
        self.layer = layer
        self.mask = mask
        self.length_scale = length_scale
        count = sum(weight.numel() for weight in self._weights().values())
        if mask.units not in (1, count):
            raise ValueError(
                f"mask: expected units=1 or units={count}, one for every weight, got "
                f"units={mask.units}"
            )
        if length_scale < 0:
            raise ValueError(f"length_scale: expected a number >= 0, got {length_scale}")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the layer's output with masked weights; called like the layer."""
        weights = self._weights()
        flat = torch.cat([weight.flatten() for weight in weights.values()])
        parts = self.mask.perturb_weights(flat).split([w.numel() for w in weights.values()])
        masked = {
            name: part.view_as(weight)
            for (name, weight), part in zip(weights.items(), parts, strict=True)
        }
        return substitute(self.layer, masked)(*args, **kwargs)

    def kl(self) -> Tensor:
        """Return the divergence of the masked weights from their prior, each weight a unit."""
        flat = torch.cat([weight.flatten() for weight in self._weights().values()])
        return self.mask.kl(flat[None], self.length_scale)

    def _weights(self) -> dict[str, Tensor]:
        return {name: getattr(self.layer, name) for name in _names(self.layer)}


def _names(layer: nn.Module) -> list[str]:
    """Return the names of a layer's matrices of weights."""
    if isinstance(layer, nn.RNNBase):
        return [name for name in layer._flat_weights_names if name.startswith("weight")]
    return ["weight"]
