"""`Masked`: a layer with dropout of its inputs, and the KL that needs both."""

from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from dubio.layers.masked_linear import masked_linear
from dubio.layers.substitution import is_alone
from dubio.layers.wrapping import Wrapping
from dubio.masks.mask import Mask
from dubio.native.weights import readable
from dubio.noise.run import current_pass


@final
class Masked(Wrapping):
    """A weight layer with a mask on its inputs: a distribution over its weights.

    The mask acts on the features of a linear layer, the channels of a convolution, the features of
    every time step of a recurrent layer (one mask per sequence, Gal 2016), and the embedding of
    query, key and value of attention. Rows of the batch are on axis 0, except for recurrent layers
    and attention with ``batch_first=False``. Biases have a flat prior.

    Args:
        layer: Linear, Conv1–3d, ConvTranspose1–3d, LSTM, GRU, RNN or MultiheadAttention.
        mask: The mask of its inputs.
        length_scale: Length scale ℓ of the prior N(0, 1/ℓ²) on each weight.
    """

    def __init__(self, layer: nn.Module, mask: Mask, *, length_scale: float = 1e-2) -> None:
        super().__init__()
        if not isinstance(layer, nn.Linear | _ConvNd | nn.RNNBase | nn.MultiheadAttention):
            raise TypeError(
                f"layer: expected Linear, Conv, ConvTranspose, LSTM, GRU, RNN or "
                f"MultiheadAttention, got {type(layer).__name__}; mask the layers inside it"
            )
        check_mask(mask)
        features = _by_unit(layer).shape[1]
        if mask.units not in (1, features):
            raise ValueError(
                f"mask: expected units=1 or units={features} for this {type(layer).__name__}, "
                f"got units={mask.units}"
            )
        if length_scale < 0:
            raise ValueError(f"length_scale: expected a number >= 0, got {length_scale}")
        self.layer = layer
        self.mask = mask
        self.length_scale = length_scale

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the layer's output for masked inputs; called like the layer."""
        layer = self._modules["layer"]
        if isinstance(layer, nn.MultiheadAttention):
            return self._attend(*args, **kwargs)
        return self._apply_layer(layer, *args, **kwargs)

    def _apply_layer(self, layer: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(input, Tensor):
            raise TypeError(
                f"Masked({type(layer).__name__}): expected a tensor, got {type(input).__name__}; "
                f"pad sequences instead of packing them"
            )
        if isinstance(layer, nn.RNNBase):
            (masked,) = self._mask_sequences(layer.batch_first, input)
            return layer(masked, *args, **kwargs)
        mask: Any = self._modules["mask"]
        axis = -1 - len(layer.kernel_size) if isinstance(layer, _ConvNd) else -1
        if mask._forward_hooks or mask._forward_pre_hooks:
            return layer(mask(input, axis=axis), *args, **kwargs)
        if input.dim() == 2 and is_alone(layer) and not (args or kwargs):
            return self._apply_linear(layer, mask, input)
        return layer(mask.forward(input, axis=axis), *args, **kwargs)

    def _apply_linear(self, layer: nn.Linear, mask: Mask, x: Tensor) -> Tensor:  # (B, features)
        """Apply a linear layer to masked rows, in one step where the kernels know the mask."""
        weight, bias = layer.weight, layer.bias
        running, masking = current_pass(), None
        with torch._C.DisableTorchFunction():  # nothing in here is for an interceptor to see
            noisy = running is not None or mask.training
            noises = mask.draw(x, 1, 0) if noisy else None
            if noises is not None:
                masking = mask.masking([x], 1, *noises)
                known = masking is not None and masking.shape == x.shape
                if not (
                    known and all(readable(each) for each in (weight, bias) if each is not None)
                ):
                    (x,), masking = mask.multiply([x], 1, *noises), None
        if masking is None:
            return F.linear(x, weight, bias)
        asked = running is not None and running.learning and self not in running.memory
        length_scale = self.length_scale if asked and mask.kl_is_known else None
        repeated = running is not None and running.repeats(x)
        y, total = masked_linear(masking, length_scale, repeated, x, weight, bias)
        if running is not None and total is not None:
            running.memory[self] = total
        return y

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
        assert isinstance(self.layer, nn.MultiheadAttention)
        masked = self._mask_sequences(self.layer.batch_first, query, key, value)
        return self.layer(*masked, *args, **kwargs)

    def _mask_sequences(self, batch_first: bool, *sequences: Tensor) -> list[Tensor]:
        """Multiply sequences by one mask per row, the same for all time steps and all of them."""
        distinct = {id(x): x for x in sequences}  # attention is faster on one tensor than on three
        rows = 0 if batch_first else 1
        if sequences[0].dim() == 2:  # (T, D): one row
            masked = [x[0] for x in self.mask.perturb(*(x[None] for x in distinct.values()))]
        else:
            masked = self.mask.perturb(*distinct.values(), rows=rows)
        by_id = dict(zip(distinct, masked, strict=True))
        return [by_id[id(x)] for x in sequences]

    def kl(self) -> Tensor:
        """Return the divergence of the masked weights from their prior, by the mask's formula."""
        running = current_pass()
        if running is not None and self in running.memory:
            known: Tensor = running.memory[self]
            return known
        layer, mask = self._modules["layer"], self._modules["mask"]
        assert layer is not None
        assert isinstance(mask, Mask)
        return mask.kl(_by_unit(layer), self.length_scale)


def check_mask(mask: object) -> None:
    """Raise an error unless this is a mask."""
    if not isinstance(mask, Mask):
        got = f"the class {mask.__name__}" if isinstance(mask, type) else repr(mask)
        raise TypeError(
            f"mask: expected a mask such as dubio.masks.Concrete(1, drop=0.1), got {got}"
        )


def _input_weights(layer: nn.Module) -> list[Tensor]:
    """Return the weights that the masked inputs meet."""
    if isinstance(layer, nn.RNNBase):
        names = [name for name in layer._flat_weights_names if name.startswith("weight_ih_l0")]
        return [getattr(layer, name) for name in names]
    if isinstance(layer, nn.MultiheadAttention):
        if layer.in_proj_weight is not None:
            return [layer.in_proj_weight]
        raise TypeError(
            "layer: expected a MultiheadAttention with kdim = vdim = embed_dim, whose query, key "
            "and value have the same features; mask its projections by layers of their own"
        )
    assert isinstance(layer, nn.Linear | _ConvNd)
    return [layer.weight]


def _by_unit(layer: nn.Module) -> Tensor:  # (fan out, features)
    """Return the weights that each input unit feeds."""
    weights = _input_weights(layer)
    if isinstance(layer, _ConvTransposeNd):
        return weights[0].flatten(1).T
    if isinstance(layer, _ConvNd):
        by_group = weights[0].unflatten(0, (layer.groups, -1)).flatten(3)  # (groups, out, in, …)
        joined: Tensor = by_group.permute(1, 3, 0, 2).flatten(2).flatten(0, 1)  # (…, groups · in)
        return joined
    return weights[0] if len(weights) == 1 else torch.cat(weights)
