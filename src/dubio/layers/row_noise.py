"""Noise per row instead of noise on weights: local reparameterisation and flipout.

Both are for layers that are linear in weights and input, W·x + b. Rows get noise of their own, so
that the gradients of a batch average over it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from dubio.layers.gaussian_linear import FlippedRows, LocalRows, Rows
from dubio.layers.posterior import Posterior, Sample
from dubio.layers.streamed import add_local
from dubio.layers.substitution import substitute
from dubio.native.stream import Stream
from dubio.native.weights import readable
from dubio.noise.requests import Request
from dubio.noise.stochastic import Noisy, own_noise, own_stream

Linear = nn.Linear | _ConvNd
_KINDS = (
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d,
    nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
)  # fmt: skip


@final
@dataclass(slots=True)
class _Call:
    """A call of a layer with Gaussian weights.

    Attributes:
        owner: The `dubio.Bayesian` around the layer.
        layer: The layer.
        posterior: The distribution of its weights.
        noise_of_weights: That of all rows, if it is needed; None for the mean.
        known: Means and changes or variances of weights, if they are known already.
        args: Arguments of the layer behind its input.
        kwargs: By name.
    """

    owner: Noisy
    layer: Linear
    posterior: Posterior
    noise_of_weights: Tensor | Stream | None
    known: Sample | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def outputs(self, weights: Sequence[Tensor], x: Tensor) -> Tensor:
        """Return the outputs of the layer with other weights."""
        names = (name for name, _ in self.layer.named_parameters())
        layer = substitute(self.layer, dict(zip(names, weights, strict=True)))
        outputs: Tensor = layer(x, *self.args, **self.kwargs)
        return outputs


class RowNoise(Noisy, ABC):
    """A way to draw the outputs of a layer with Gaussian weights, row by row.

    The noise enters at the site of its owner, the `dubio.Bayesian` around the layer.

    Attributes:
        needs_weights: Whether it starts from one draw of weights for all rows.
    """

    needs_weights: ClassVar[bool]

    @abstractmethod
    def rows(self, owner: Noisy, outs: int, x: Tensor) -> Rows | None:
        """Return the noise of rows for a linear layer; None where `forward` has to draw it.

        Args:
            owner: The `dubio.Bayesian` around the layer.
            outs: How many outputs the layer has.
            x: The input.  # (B, ins)
        """

    @abstractmethod
    def _around(self, mean: Tensor, x: Tensor, call: _Call) -> Tensor:
        """Return outputs around those of the mean weights; these if there is no noise around."""

    def forward(
        self,
        owner: Noisy,
        layer: Linear,
        posterior: Posterior,
        noise_of_weights: Tensor | Stream | None,
        known: Sample | None,
        x: Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        """Return the outputs for an input, rows first; the other arguments are those of a call."""
        call = _Call(owner, layer, posterior, noise_of_weights, known, args, kwargs)
        means = posterior.mean() if known is None else known.weights
        return self._around(call.outputs(means, x), x, call)


@final
class LocalNoise(RowNoise):
    """Draws outputs from the distribution that random weights give them, N(Wx, W_σ²x²).

    Clark et al. 2022, eqs. 16–18, after Kingma, Salimans and Welling (2015).
    """

    needs_weights = False

    def rows(self, owner: Noisy, outs: int, x: Tensor) -> Rows | None:
        """ζ."""
        request = Request("normal", torch.Size([len(x), outs]), 0, 1)
        stream = own_stream(self, request, x, owner)
        return None if stream is None else LocalRows(stream)

    def _around(self, mean: Tensor, x: Tensor, call: _Call) -> Tensor:
        """Return γ + √δ·ζ."""
        request = Request("normal", mean.shape, 0, 1)
        stream, noises = None, None
        with torch._C.DisableTorchFunction():
            if torch.is_grad_enabled() and readable(mean):
                stream = own_stream(self, request, mean, call.owner)
            if stream is None:
                noises = own_noise(self, (request,), mean, call.owner)
        if stream is None and noises is None:
            return mean
        variances = call.posterior.variances() if call.known is None else call.known.changes
        # squares leave the range of half precision, the deviations in it do not
        precise = x.to(torch.promote_types(x.dtype, variances[0].dtype))
        variance = call.outputs(variances, precise.square())
        if stream is not None:
            return add_local(stream, mean, variance)
        assert noises is not None
        (noise,) = noises
        variance = variance.to(noise.dtype)
        # where all inputs are zero the root has no slope; the paper adds 1e-32 to all variances
        smallest = torch.finfo(variance.dtype).tiny
        return mean + (variance.clamp(min=smallest).sqrt() * noise).to(mean.dtype)


@final
class Flipout(RowNoise):
    """One draw of weights with random signs of the deviations for every row.

    With signs s of the inputs and r of the outputs of a row, W + (ΔW ∘ r sᵀ) is distributed like
    W + ΔW, as ΔW is symmetric and independent of the signs; and r ∘ (ΔW(s ∘ x)) takes one product
    for the whole batch (Wen et al. 2018).
    """

    needs_weights = True

    def rows(self, owner: Noisy, outs: int, x: Tensor) -> Rows | None:
        """Signs of inputs and outputs."""
        signs = self._signs(owner, x, x.shape[1], outs)
        return (
            None if signs is None else FlippedRows(signs[:, : x.shape[1]], signs[:, x.shape[1] :])
        )

    def _signs(self, owner: Noisy, x: Tensor, ins: int, outs: int) -> Tensor | None:
        """One for every input and output of a row."""
        request = Request("bernoulli", torch.Size([x.shape[0], ins + outs]), 0, 1)
        coins = own_noise(self, (request,), x, owner)
        return None if coins is None else coins[0].to(x.dtype) * 2 - 1

    def _around(self, mean: Tensor, x: Tensor, call: _Call) -> Tensor:
        """Wx + b + r ∘ (ΔW(s ∘ x) + Δb)."""
        axis = _unit_axis(call.layer)
        ins, outs = x.shape[axis], mean.shape[axis]
        with torch._C.DisableTorchFunction():
            signs = self._signs(call.owner, x, ins, outs)
            if call.noise_of_weights is None:
                return mean
            known = call.known
            change = (
                call.posterior.changes(call.noise_of_weights) if known is None else known.changes
            )
        if signs is None:
            return mean + call.outputs(change, x)
        of_inputs, of_outputs = (
            part.view(part.shape[0], *_along(axis, like, part.shape[1]))
            for part, like in ((signs[:, :ins], x), (signs[:, ins:], mean))
        )
        flipped = call.outputs(change, x * of_inputs) * of_outputs
        return mean + flipped.to(mean.dtype)


def is_linear(layer: nn.Module) -> bool:
    """Return whether the output is W·x + b in the layer's own parameters.

    That of a subclass with a forward of its own, under a parametrization or behind a hook need not
    be.
    """
    kind = next((kind for kind in _KINDS if isinstance(layer, kind)), None)
    methods = ("forward", "_conv_forward", "__call__")
    return (
        kind is not None
        and all(getattr(type(layer), m, None) is getattr(kind, m, None) for m in methods)
        and {name for name, _ in layer.named_parameters()} <= {"weight", "bias"}
        and not (layer._forward_hooks or layer._forward_pre_hooks)
    )


def has_rows(layer: nn.Module, args: Sequence[Any]) -> bool:
    """Return whether the first argument has an axis of rows."""
    assert isinstance(layer, Linear)
    return len(args) > 0 and isinstance(args[0], Tensor) and args[0].dim() > -_unit_axis(layer)


def _unit_axis(layer: Linear) -> int:
    """Return the axis of units or channels, from behind."""
    return -1 - len(layer.kernel_size) if isinstance(layer, _ConvNd) else -1


def _along(axis: int, like: Tensor, units: int) -> list[int]:
    """Return the shape of one row of noise that has one entry for each unit."""
    shape = [1] * (like.dim() - 1)
    shape[axis] = units
    return shape
