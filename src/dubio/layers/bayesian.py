"""`Bayesian`: any layer with a distribution on its weights (Bayes by Backprop)."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dubio.layers.centered_prior import CenteredPrior
from dubio.layers.gaussian_linear import gaussian_linear
from dubio.layers.posterior import Posterior, Sample, sample_together
from dubio.layers.row_noise import Flipout, LocalNoise, RowNoise, has_rows, is_linear
from dubio.layers.streamed import NO_STREAM
from dubio.layers.substitution import call_with, is_alone
from dubio.layers.wrapping import Wrapping
from dubio.native.masked import serves
from dubio.native.stream import Stream
from dubio.noise.perturbations import Spread
from dubio.noise.requests import Request
from dubio.noise.run import Pass, current_pass
from dubio.noise.stochastic import Stochastic, check_apart, own_noise, own_stream
from dubio.noise.vectorised import is_vectorised
from dubio.priors import Gaussian, Prior
from dubio.priors.prior import positive

Sampler = Literal["weights", "local", "flipout"]

_SMALL = 2**14  # weights of a layer
_TOGETHER = -4  # in the place of a site


class Bayesian(Wrapping):
    """A layer with Gaussian weights and biases, N(μ, softplus(ρ)²): Bayes by Backprop.

    Clark et al. 2022; Blundell et al. 2015. The means μ are the parameters of the layer itself, so
    a trained layer starts from what it has learned, and in eval mode without noise it is the
    original layer. A pass under `dubio.ELBO`, `dubio.predict` or `dubio.Noise` uses one draw of
    weights, however often the layer is called and for all time steps of a sequence.

    The samplers differ in cost and in the variance of gradients. They agree in the distribution of
    the outputs at one position of a row:

    - ``weights`` draws w = μ + σε. A draw is one function of the input. For all layers.
    - ``local`` draws the outputs instead, N(xμ, x²σ²), for every row separately (Clark et al. 2022,
      eqs. 16–18; Kingma et al. 2015). Positions of a convolution, or of a linear layer on
      sequences, have independent noise, so only the distribution at each position is that of the
      weights. For Linear, Conv and ConvTranspose.
    - ``flipout`` draws w once for the batch and flips signs of the deviations for every row (Wen et
      al. 2018), so that each row has its own weights, which are right for all positions. For
      Linear, Conv and ConvTranspose.

    With `local` no function belongs to a draw: if rows share their noise (``shared=True``), the
    weights are drawn instead. Nor is the joint distribution of several calls in one pass right;
    layers that are called repeatedly need ``weights``.

    Args:
        layer: Linear, Conv, ConvTranspose, Embedding, LSTM, GRU, RNN, MultiheadAttention, or any
            other module with parameters.
        prior: The prior of each weight, from `dubio.priors`.
        sampler: How noise enters.
        deviation: Initial σ of every weight. Keep it small, or training starts in noise.

    Attributes:
        layer: The layer, whose parameters are the means.
        rho: ρ of all weights in one row, in the order of ``layer.named_parameters()``: a parameter.
        kept: Which weights `dubio.prune` has left, in the same order; None for all.
    """

    kept: Tensor | None
    center: Tensor | None

    def __init__(
        self,
        layer: nn.Module,
        *,
        prior: Prior = Gaussian(1.0),  # noqa: B008  (an immutable value)
        sampler: Sampler = "weights",
        deviation: float = 0.01,
    ) -> None:
        super().__init__()
        _check(layer, prior, sampler, deviation)
        self.layer = layer
        self.prior = prior
        self.sampler: Sampler = sampler
        weights = dict(layer.named_parameters())
        first = next(iter(weights.values()))
        dtype = torch.promote_types(first.dtype, torch.float32)
        count = sum(weight.numel() for weight in weights.values())
        rho = math.log(math.expm1(deviation)) if deviation < 20 else deviation
        self.rho = nn.Parameter(torch.full((count,), rho, dtype=dtype, device=first.device))
        self.register_buffer("kept", _without_padding(layer))
        self.register_buffer("center", _center(prior, weights, dtype))
        self.row_noise = _row_noise(sampler)

    @property
    def kl_is_exact(self) -> bool:
        """Whether the divergence from the prior is in closed form."""
        return self.prior.exact

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the layer's output for the weights of this draw; called like the layer."""
        layer: Any = self._modules["layer"]
        running = current_pass()
        shared = running is not None and running.shared
        if len(args) == 1 and not kwargs and running is not None and torch.is_grad_enabled():
            outputs = self._linear(running, layer, *args)
            if outputs is not None:
                return outputs
        if self.sampler != "weights" and not shared and has_rows(layer, args):
            assert self.row_noise is not None
            posterior = self.posterior()
            noise = self._stream_or_noise(posterior) if self.row_noise.needs_weights else None
            known = None if running is None else self._moments(running, posterior, noise)
            return self.row_noise(self, layer, posterior, noise, known, *args, **kwargs)
        weights = self._weights(running)
        if weights is None:
            return layer(*args, **kwargs)
        return call_with(layer, dict(zip(self._means(), weights, strict=True)), args, kwargs)

    def kl(self) -> Tensor:
        """Return the divergence from the prior, KL(q‖p), in nats, summed over weights.

        In closed form or, if there is none, as ``log q(w) − log p(w)`` at the weights w of a draw:
        those of the pass if `dubio.ELBO` asks, otherwise of another draw.
        """
        memory = {} if (running := current_pass()) is None else running.memory
        for module in (self, self.row_noise):
            sample: Sample | None = None if module is None else memory.get(module)
            if sample is not None and sample.divergence is not None:
                return sample.divergence
        noise = None
        if not self.prior.exact:
            noise = self._noise()
            noise = torch.randn_like(self.rho) if noise is None else noise
        return self.posterior().divergence(noise, self._centered_prior())

    @classmethod
    def draw_together(cls, modules: Sequence[Self], running: Pass) -> None:
        """Draw the weights of several small layers in one call."""
        groups: dict[Any, list[Bayesian]] = {}
        for module in modules:
            rho, prior = module._parameters["rho"], module.prior
            whole = module._buffers["kept"] is None and module._buffers["center"] is None
            if rho is not None and whole and module.sampler == "weights" and len(rho) <= _SMALL:
                key = (type(prior), prior, prior.mean, rho.dtype, rho.device)
                groups.setdefault(key, []).append(module)
        for number, group in enumerate(groups.values()):
            if len(group) > 1 and not is_vectorised(group[0].rho):
                posteriors = [module.posterior() for module in group]
                count = torch.Size([sum([len(posterior.rho) for posterior in posteriors])])
                centered, place = group[0]._centered_prior(), (_TOGETHER, number)
                noise: Tensor | Stream | None = None
                if all(posterior.streamable(centered) for posterior in posteriors):
                    noise = running.numbers.stream(place)
                if noise is None:
                    noise = running.numbers.normal(place, count, posteriors[0].rho)[0]
                weights, total = sample_together(posteriors, noise, centered)
                for member, own in zip(group, weights, strict=True):
                    running.memory[member] = Sample(own, total, torch.is_grad_enabled())
                    total = total.new_zeros(())  # that of the first is the divergence of all

    def posterior(self) -> Posterior:
        """Return the distribution of the weights, in the order of ``layer.named_parameters()``."""
        means = list(self._means().values())
        rho: Any = self._parameters["rho"]
        count = sum([mean.numel() for mean in means])
        if count != rho.numel():
            raise RuntimeError(
                f"layer: expected the {len(rho)} weights that it had when it became Bayesian, "
                f"got {count}; change its shape first and wrap it then"
            )
        return Posterior(means, rho, self._buffers["kept"])

    def means(self) -> dict[str, Tensor]:
        """Return μ of every weight; zero where it is pruned."""
        return dict(zip(self._names(), self.posterior().mean(), strict=True))

    def deviations(self) -> dict[str, Tensor]:
        """Return σ of every weight; zero where it is pruned."""
        return dict(zip(self._names(), self.posterior().deviation(), strict=True))

    def named_parts(self) -> Iterable[tuple[str, nn.Parameter]]:
        """Return the weights, which layers must not share."""
        return self.layer.named_parameters("layer")

    def settle(self) -> None:
        """Set pruned weights to zero again after an optimizer has moved them.

        Nothing that was computed from them is outdated by that: they had no part in it.
        """
        if self.kept is not None:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                for own, mean in zip(self.layer.parameters(), self.posterior().mean(), strict=True):
                    own.data.copy_(mean)

    def extra_repr(self) -> str:
        """Return the sampler, the prior, and the share of weights that are left."""
        kept = "" if self.kept is None else f", kept={float(self.kept.float().mean()):.3g}"
        return f"sampler={self.sampler!r}, prior={self.prior!r}{kept}"

    def _weights(self, running: Pass | None) -> list[Tensor] | None:
        """Return the weights of this draw; None if they are those of the layer."""
        if running is not None and self in running.memory:
            running.check_checkpoint("Bayesian")
            known: Sample = running.memory[self]
            # those that were made without gradients are made again where there are some
            if known.weights and (known.graph or not torch.is_grad_enabled()):
                return known.weights
        with torch._C.DisableTorchFunction():  # nothing in here is for an interceptor to see
            posterior = self.posterior()
            learning = torch.is_grad_enabled()
            weights = None if running is None or learning else self._recorded(running, posterior)
            if weights is not None:
                sample = Sample(weights, None, graph=False)
            elif (noise := self._stream_or_noise(posterior)) is None:
                return None if posterior.kept is None else posterior.mean()
            elif running is not None and running.learning and learning:
                sample = posterior.sample_with_divergence(noise, self._centered_prior())
            else:
                sample = Sample(posterior.sample(noise), None, learning)
        if running is not None:
            running.memory[self] = sample
        return sample.weights

    def _linear(self, running: Pass, layer: nn.Module, x: Any) -> Tensor | None:
        """Return outputs for rows of a linear layer, in one step where the kernels can take it."""
        row_noise = None if running.shared else self.row_noise
        key = self if row_noise is None else row_noise
        if key in running.memory or not (
            isinstance(x, Tensor) and x.dim() == 2 and is_alone(layer)
        ):
            return None
        posterior, prior = self.posterior(), self._centered_prior()
        if not (serves(x) and posterior.streamable(prior)):
            return None
        stream: Stream | None = NO_STREAM
        with torch._C.DisableTorchFunction():
            if row_noise is None or row_noise.needs_weights:
                stream = own_stream(self, _request(posterior.rho), posterior.rho.detach())
            rows = None if row_noise is None else row_noise.rows(self, len(posterior.means[0]), x)
            if stream is None or (rows is None and row_noise is not None):
                return None
            y, total = gaussian_linear(
                stream, rows, prior if running.learning else None, x, posterior.rho, posterior.means
            )
        running.memory[key] = Sample([], total)  # further calls draw the same weights once more
        return y

    def _recorded(self, running: Pass, posterior: Posterior) -> list[Tensor] | None:
        """Return the weights of this draw in a recorded pass, for many draws at once."""
        lasting = all(isinstance(mean, nn.Parameter) for mean in posterior.means)
        if running.plain or not lasting or not posterior.streamable(self._centered_prior()):
            return None
        rho = posterior.rho
        place = running.own_place(self, _request(rho), rho, self.site_rate, self)
        if place is None or running.numbers.stream(place) is None:
            return None
        sigma, weights, start = F.softplus(rho), [], 0
        for mean in posterior.means:
            weights.append(running.perturb(Spread(*place, start, mean), sigma))
            start += mean.numel()
        return weights

    def _moments(
        self, running: Pass, posterior: Posterior, noise: Tensor | Stream | None
    ) -> Sample | None:
        """Means with changes or variances, made with the divergence where it will be asked for."""
        assert self.row_noise is not None
        known: Sample | None = running.memory.get(self.row_noise)
        if known is not None and known.weights:
            return known
        wanted = running.learning and torch.is_grad_enabled()
        prior = self._centered_prior()
        missing = noise is None and self.row_noise.needs_weights
        if isinstance(noise, Tensor) or missing or not wanted or not posterior.streamable(prior):
            return None
        with torch._C.DisableTorchFunction():
            known = running.memory[self.row_noise] = posterior.moments(noise, prior)
        return known

    def _stream_or_noise(self, posterior: Posterior) -> Tensor | Stream | None:
        """Return ε of all weights, drawn only where the kernels cannot do without."""
        stream = None
        if posterior.streamable(self._centered_prior()):
            with torch._C.DisableTorchFunction():
                rho = posterior.rho.detach()  # a plain tensor
                stream = own_stream(self, _request(rho), rho)
        return self._noise() if stream is None else stream

    def _noise(self) -> Tensor | None:
        """Return ε of all weights, the same in all calls of a pass; None for the mean."""
        rho: Any = self._parameters["rho"]
        with torch._C.DisableTorchFunction():
            noises = own_noise(self, (_request(rho),), rho)
            return None if noises is None else noises[0]

    def _means(self) -> dict[str, Tensor]:
        """Return the parameters of the layer."""
        layer: Any = self._modules["layer"]
        if not layer._modules:
            return {name: p for name, p in layer._parameters.items() if p is not None}
        return dict(layer.named_parameters())

    def _names(self) -> list[str]:
        return list(self._means())

    def _centered_prior(self) -> CenteredPrior:
        center = self._buffers["center"]
        if center is not None:
            return CenteredPrior(self.prior, center)
        assert not isinstance(self.prior.mean, Mapping)
        return CenteredPrior(self.prior, self.prior.mean)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move and convert, but keep ρ and the prior's means precise: their sums are long."""
        for child in self.children() if recurse else ():
            child._apply(fn)

        def precisely(tensor: Tensor) -> Tensor:
            new = fn(tensor)
            rounded = new.is_floating_point() and torch.finfo(new.dtype).bits < 32
            return tensor.to(new.device, torch.float32) if rounded else new

        super()._apply(precisely, recurse=False)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take over which weights were pruned, with the distribution of the others."""
        if f"{prefix}rho" in state_dict:
            kept = state_dict.get(f"{prefix}kept")
            if kept is None:
                self.kept = _without_padding(self.layer)
            else:
                self.kept = torch.empty_like(kept, device=self.rho.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def bayesian_layers(model: nn.Module) -> dict[str, Bayesian]:
    """Return all such layers of a network, each with its first name."""
    found = {name: m for name, m in model.named_modules() if isinstance(m, Bayesian)}
    if not found:
        raise ValueError(
            f"model: expected a network with Bayesian layers, got {type(model).__name__} without "
            f"any; see dubio.rules.bayes"
        )
    check_apart(found.values())
    return found


def _request(rho: Tensor) -> Request:
    """Return one normal number for each weight."""
    return Request("normal", rho.shape, None, 0)


def _row_noise(sampler: Sampler) -> RowNoise | None:
    match sampler:
        case "weights":
            return None
        case "local":
            return LocalNoise()
        case "flipout":
            return Flipout()


def _without_padding(layer: nn.Module) -> Tensor | None:
    """Return all weights but the padding rows of embeddings; None if there are none."""
    kept: dict[Tensor, Tensor] = {
        weight: torch.ones_like(weight, dtype=torch.bool) for weight in layer.parameters()
    }
    padded = False
    for module in layer.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.padding_idx is not None:
            padded = True
            kept[module.weight][module.padding_idx] = False
    return torch.cat([there.flatten() for there in kept.values()]) if padded else None


def _center(prior: Prior, weights: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor | None:
    """Return the means of a prior that has one for every weight, in one row."""
    if not isinstance(prior.mean, Mapping):
        return None
    expected = {name: tuple(weight.shape) for name, weight in weights.items()}
    got = {name: tuple(mean.shape) for name, mean in prior.mean.items()}
    if got != expected:
        raise ValueError(
            f"prior: expected means for weights of shapes {expected}, got {got}; make it from a "
            f"layer like this one"
        )
    like = next(iter(weights.values()))
    return torch.cat([prior.mean[name].detach().flatten() for name in weights]).to(
        like.device, dtype
    )


def _check(layer: nn.Module, prior: Prior, sampler: str, deviation: float) -> None:
    if not isinstance(layer, nn.Module):
        raise TypeError(f"layer: expected an nn.Module, got {type(layer).__name__}")
    kind = type(layer).__name__
    if isinstance(layer, torch.jit.ScriptModule):
        raise TypeError(
            f"layer: expected a Python module, got {kind}, compiled by TorchScript; take the "
            f"module that it was scripted from"
        )
    parameters = dict(layer.named_parameters(remove_duplicate=False))
    if any(isinstance(module, Stochastic) for module in layer.modules()):
        raise TypeError(f"layer: expected a plain layer, got {kind}, which is stochastic already")
    if not parameters:
        raise ValueError(f"layer: expected a module with weights, got {kind} without parameters")
    if any(is_lazy(parameter) for parameter in parameters.values()):
        raise ValueError(
            f"layer: expected a layer with weights, got an uninitialised {kind}; call it on a "
            f"batch first"
        )
    if len(set(map(id, parameters.values()))) < len(parameters):
        raise ValueError(
            f"layer: expected weights that are used under one name, got {kind}, which ties some; "
            f"treat the layers inside it"
        )
    if not all(parameter.is_floating_point() for parameter in parameters.values()):
        raise TypeError(f"layer: expected real weights, got {kind} with others")
    for module in layer.modules():
        if not isinstance(module, nn.Embedding | nn.EmbeddingBag):
            continue
        if module.max_norm is not None or module.sparse:
            raise ValueError(
                "layer: expected an embedding without max_norm and sparse gradients, which "
                "overwrite or skip weights; make it without"
            )
        padding, weight = module.padding_idx, module.weight
        if padding is not None and not weight.is_meta and weight[padding].count_nonzero():
            raise ValueError(
                f"layer: expected zeros in row {padding} of the embedding, its padding, got other "
                f"numbers; set them to zero, or padding_idx to None"
            )
    if not isinstance(prior, Prior):
        raise TypeError(f"prior: expected one from dubio.priors, got {prior!r}")
    check_noise(sampler, deviation)
    if sampler != "weights" and not is_linear(layer):
        raise ValueError(
            f"sampler: expected 'weights' for {kind}, got {sampler!r}, which is for Linear and "
            f"Conv layers as torch has them: outputs W·x + b, without parametrizations and hooks"
        )


def check_noise(sampler: str, deviation: float) -> None:
    """Raise an error unless these are a sampler and an initial deviation."""
    if sampler not in get_args(Sampler):
        names = ", ".join(get_args(Sampler))
        raise ValueError(f"sampler: expected one of {names}, got {sampler!r}")
    positive("deviation", deviation)
