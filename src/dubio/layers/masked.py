"""`Masked`: a layer with dropout of its inputs, and the KL that needs both."""

from collections.abc import Sequence
from typing import Any, Self, final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from dubio.layers.substitution import call_with
from dubio.layers.wrapping import Wrapping
from dubio.masks.learnable import LearnableBernoulli
from dubio.masks.mask import LearnedRate, Mask
from dubio.native.columns import column_products
from dubio.noise.derivative import Derivative
from dubio.noise.stochastic import KnownSlopes


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
        hooked = mask._forward_hooks or mask._forward_pre_hooks
        learnable = type(layer) is nn.Linear and isinstance(mask, LearnableBernoulli)
        if learnable and not hooked and mask.only_scales(input):
            with torch.no_grad():
                masked = mask.forward(input)
            weight, bias = layer._parameters["weight"], layer._parameters["bias"]
            carrying = {"weight": _Carrying.apply(weight, mask.own_logit), "bias": bias}
            return call_with(layer, carrying, (masked, *args), kwargs)
        masked = mask(input, axis=axis) if hooked else mask.forward(input, axis=axis)
        return layer(masked, *args, **kwargs)

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
        layer, mask = self._modules["layer"], self._modules["mask"]
        assert layer is not None
        assert isinstance(mask, Mask)
        return mask.kl(_by_unit(layer), self.length_scale)

    @classmethod
    def kl_slopes(cls, modules: Sequence[Self]) -> list[KnownSlopes]:
        """Return the divergences of linear layers whose masks know the derivatives."""
        groups: dict[Any, list[Masked]] = {}
        for module in modules:
            layer, mask = module._modules["layer"], module._modules["mask"]
            if type(layer) is nn.Linear and isinstance(mask, LearnedRate) and mask.kl_slopes:
                logit = mask.logit
                alone = module if mask.units < layer.in_features else None
                key = (mask.kl_slopes, module.length_scale, logit.dtype, logit.device, alone)
                groups.setdefault(key, []).append(module)
        known = []
        for (slopes, length_scale, *_), group in groups.items():
            weights: list[Any] = [module.layer.weight for module in group]
            logits: list[Any] = [module.mask.logit for module in group]
            found = slopes(weights, logits, length_scale)
            by_weights = zip([weight.detach() for weight in weights], found.scales, strict=True)
            by_logits = [(slope,) for slope in found.by_logits]
            slopes_of_all = [*by_weights, *by_logits]
            known.append(KnownSlopes(group, found.value, [*weights, *logits], slopes_of_all))
        return known


class _Carrying(Derivative):
    """Weights W that carry the derivative of a mask's scale 1/keep to the logits φ.

    W·(x·z/keep) is (W·keep₀/keep)·(x·z/keep₀) for any keep₀, so that the gradient of φ through the
    scale is −drop·Σ W∘∂ℓ/∂W, by feature. That takes no gradient of the inputs, which nobody else
    asks for in the first layer of a network.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, logit: Tensor) -> Tensor:
        ctx.save_for_backward(weight, logit)
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor]:
        weight, logit = ctx.saved_tensors
        (g,) = gradients
        keep = torch.sigmoid(logit)
        if torch.is_grad_enabled():  # to be differentiated once more
            g = g * (keep.detach() / keep)
        products = column_products(weight, g)  # (features,)
        of_logit = products.sum_to_size(logit.shape) * (keep - 1)
        return g, of_logit.to(logit.dtype)


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
