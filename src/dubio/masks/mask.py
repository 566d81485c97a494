"""The base classes of all masks."""

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self, SupportsFloat, final

import torch
from torch import Tensor, nn

from dubio.masks.natively import native_masking
from dubio.native.columns import column_products
from dubio.native.masked import Masking, MaskRule, multiply
from dubio.noise.derivative import Derivative
from dubio.noise.protocols import Distribution
from dubio.noise.requests import Request
from dubio.noise.run import current_pass
from dubio.noise.stochastic import Noisy, fresh_noise
from dubio.noise.undrawn import Undrawn, drawn


class MaskNoise(NamedTuple):
    """One of the noises that a mask is computed from.

    Attributes:
        distribution: What to draw.
        per_row: Whether every row of a batch has its own, or all rows of a draw the same.
    """

    distribution: Distribution
    per_row: bool = True


class Slopes(NamedTuple):
    """The divergence of a layer, and its derivatives.

    Attributes:
        value: The divergence.
        scale: Its derivatives by the weights are the weights times this, by feature or for all.
        by_logit: Its derivatives by the logits.
    """

    value: Tensor
    scale: Tensor
    by_logit: Tensor


UNIFORM, NORMAL = MaskNoise("uniform"), MaskNoise("normal")


class Mask(Noisy, ABC):
    """Multiplicative noise with mean one for the units that feed a layer.

    There is one entry for every row and unit; positions, pixels and time steps share it, so that a
    row sees one set of weights. ``units=1`` gives all units one rate, not one mask.

    A mask declares its noises and how it is computed from them: see `dubio.masks.Bernoulli`.

    Args:
        units: Number of rates: 1, or one for each unit or channel.
        drop: Initial dropout rate.

    Attributes:
        noises: The noises it is computed from: `UNIFORM` or `NORMAL`, or several.
        kl_is_known: Whether its divergence is that of `learned_bernoulli_kl`.
    """

    kl_is_known: ClassVar[bool] = False
    noises: ClassVar[tuple[MaskNoise, ...]] = (UNIFORM,)

    def __init__(self, units: int, *, drop: float) -> None:
        super().__init__()
        if isinstance(units, bool) or not isinstance(units, int) or units < 1:
            raise ValueError(f"units: expected a whole number from 1, got {units!r}")
        if not (isinstance(drop, SupportsFloat) and 0.0 < drop < 1.0):
            raise ValueError(f"drop: expected a rate between 0 and 1, got {drop!r}; try drop=0.1")
        self.units = units

    @property
    @abstractmethod
    def keep(self) -> Tensor:
        """Probability of keeping each unit: (units,)."""

    @property
    def drop(self) -> Tensor:
        """The current dropout rates: (units,)."""
        return (1.0 - self.keep).detach()

    @abstractmethod
    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """Return the mask computed from its noises, with the units on ``axis``."""

    @abstractmethod
    def kl(self, weights: Tensor, length_scale: float) -> Tensor:
        """Return the KL of the masked weights from a Gaussian prior N(0, 1/length_scale²).

        Args:
            weights: The weights that each unit feeds.  # (fan out, features)
            length_scale: The prior's length scale, ℓ.
        """

    def forward(self, x: Tensor, *, axis: int = -1, rows: int = 0) -> Tensor:
        """Multiply x, with units on ``axis`` and rows on ``rows``, by the mask."""
        (masked,) = self.perturb(x, axis=axis, rows=rows)
        return masked

    def perturb(self, x: Tensor, *others: Tensor, axis: int = -1, rows: int = 0) -> list[Tensor]:
        """Multiply x, and others that share its rows and units, by one mask."""
        running = current_pass()
        if running is None and not self.training:
            return [x, *others]
        with torch._C.DisableTorchFunction():  # nothing in here is for an interceptor to see
            axis = axis % x.dim()
            noises = self.draw(x, axis, rows)
            return [x, *others] if noises is None else self.multiply([x, *others], axis, *noises)

    def draw(self, x: Tensor, axis: int, rows: int) -> tuple[Tensor | Undrawn, ...] | None:
        """Return the noises for x, with units and rows on these axes; None if there are none."""
        self._check(x, axis, rows)
        shape = [1] * x.dim()
        shape[axis] = x.shape[axis]
        of_draw = torch.Size(shape)
        shape[rows] = x.shape[rows]
        of_rows = torch.Size(shape)
        requests = [
            Request(each.distribution, of_rows, rows, axis)
            if each.per_row
            else Request(each.distribution, of_draw, None, axis)
            for each in self.noises
        ]
        return self._answer(tuple(requests), x)

    def perturb_weights(self, weights: Tensor) -> Tensor:  # (weights,)
        """Multiply a list of weights by one mask for all rows, each weight a unit."""
        with torch._C.DisableTorchFunction():
            requests = tuple(
                Request(each.distribution, weights.shape, None, 0) for each in self.noises
            )
            noises = self._answer(requests, weights)
            return weights if noises is None else self.multiply([weights], 0, *noises)[0]

    def _answer(
        self, requests: tuple[Request, ...], x: Tensor
    ) -> tuple[Tensor | Undrawn, ...] | None:
        running = current_pass()
        if running is not None:
            return running.undrawn_noise(self, requests, x, self.site_rate, self)
        return tuple([fresh_noise(each, x) for each in requests]) if self.training else None

    def masking(self, xs: list[Tensor], axis: int, *noises: Tensor | Undrawn) -> Masking | None:
        """Return the mask as the kernels multiply tensors by it; None if they do not know it."""
        return None

    def multiply(self, xs: list[Tensor], axis: int, *noises: Tensor | Undrawn) -> list[Tensor]:
        """Multiply tensors by the mask that the noises make."""
        masking = self.masking(xs, axis, *noises)
        if masking is not None:
            return [multiply(x, masking) for x in xs]
        multiplier = self.multiplier(axis, *map(drawn, noises))
        return [x * multiplier.to(x.dtype) for x in xs]

    def _check(self, x: Tensor, axis: int, rows: int) -> None:
        if self.units not in (1, x.shape[axis]):
            raise ValueError(
                f"{type(self).__name__}: expected {self.units} units on axis {axis}, got a tensor "
                f"of shape {tuple(x.shape)}; make the mask with units={x.shape[axis]} or units=1"
            )
        if axis == rows:
            raise ValueError(
                f"{type(self).__name__}: expected a batch with rows on axis {rows} and units on "
                f"another, got shape {tuple(x.shape)}; add an axis with x[None]"
            )

    def site_rate(self) -> float:
        """Return the mean of the current rates."""
        return float(self.drop.mean())

    def tied(self) -> Self:
        """Return another mask with the same parameters, for a layer that shares the rate."""
        return copy.copy(self)

    def extra_repr(self) -> str:
        """Return the units and the mean rate."""
        return f"units={self.units}, drop={self.site_rate():.3g}"


class LearnedRate(Mask, ABC):
    """A mask whose rates can be learned.

    Args:
        units: How many rates: 1, or one for each unit or channel.
        drop: The dropout rate to start from.
        learn: Whether the rates are learned.

    Attributes:
        learn: Whether the rates are learned, as given.
        logit: The logit of keeping, by unit: a parameter, or a buffer if it is not learned.
    """

    def __init__(self, units: int = 1, *, drop: float = 0.1, learn: bool = True) -> None:
        super().__init__(units, drop=drop)
        self.learn = learn
        start = torch.full((units,), 1.0 - drop, dtype=torch.float64).logit()
        start = start.to(torch.get_default_dtype())
        if learn:
            self.logit = nn.Parameter(start)
        else:
            self.register_buffer("logit", start)

    @property
    def keep(self) -> Tensor:
        """Probability of keeping, by unit: (units,)."""
        return torch.sigmoid(self.logit)

    @property
    def own_logit(self) -> Tensor:
        """The logits, found faster than as an attribute."""
        logit = self._parameters.get("logit", self._buffers.get("logit"))
        assert logit is not None
        return logit

    def logit_along(self, noise: Tensor, axis: int) -> Tensor:
        """Return the logits laid out along the axis of the units."""
        return along(self.own_logit, noise, axis)


class Smooth(LearnedRate, ABC):
    """A mask that is a differentiable function of its logits and of one noise."""

    @property
    @abstractmethod
    def rule(self) -> MaskRule:
        """The same function as the kernels know it."""

    @abstractmethod
    def factor(self, logit: Tensor, noise: Tensor) -> Tensor:
        """Return the mask, from logits laid out along the noise."""

    @final
    def multiplier(self, axis: int, *noises: Tensor) -> Tensor:
        """Return the mask, from its noise, with the units on ``axis``."""
        (noise,) = noises
        return self.factor(self.logit_along(noise, axis), noise)

    @final
    def masking(self, xs: list[Tensor], axis: int, *noises: Tensor | Undrawn) -> Masking | None:
        """Return the mask as the kernels multiply tensors by it."""
        (noise,) = noises
        if not isinstance(noise, Undrawn):  # in a population settings may be tensors, and no rule
            return None

        def by_torch(x: Tensor, logit: Tensor) -> Tensor:
            u = drawn(noise)
            return x * self.factor(along(logit, u, axis), u)

        logit = self.own_logit
        return native_masking(xs, axis, noise, (self.rule,), logit, logit.detach(), by_torch)


def along(values: Tensor, noise: Tensor, axis: int) -> Tensor:
    """Lay values by unit out along an axis of the noise, in its dtype."""
    if values.dtype != noise.dtype:
        values = values.to(noise.dtype)
    behind = noise.dim() - 1 - axis
    return values.view(-1, *[1] * behind) if behind else values


def bernoulli_kl(weights: Tensor, keep: Tensor, length_scale: float) -> Tensor:
    """Return the expected squared norm of masked weights, Σ_k ℓ²‖W_k‖² / (2·keep_k).

    Gal et al. 2017, eq. 3 (Gal & Ghahramani 2016, eq. 9) has keep·ℓ²/2·‖M_k‖² for unscaled masks;
    with inverse scaling M = W/keep.
    """
    return 0.5 * length_scale**2 * (weights.square().sum(0) / keep).sum()


def learned_bernoulli_kl(weights: Tensor, logit: Tensor, length_scale: float) -> Tensor:
    """Return Σ_k ℓ²‖W_k‖²/(2·keep_k) − H(keep_k), keep = σ(φ).

    Gal et al. 2017, eqs. 3–4; Boluki et al. 2020, section 2.2.
    """
    if torch.compiler.is_dynamo_compiling():  # compilers differentiate by themselves
        return _learned_bernoulli_slopes(weights, logit, length_scale).value
    divergence: Tensor = _LearnedBernoulliKL.apply(weights, logit, length_scale)[0]
    return divergence


def _learned_bernoulli_slopes(
    weights: Tensor, logit: Tensor, length_scale: float | Tensor
) -> Slopes:
    """Return the same with its slopes, in one pass over the weights.

    The entropy is H = log(1 + e^φ) − φ·keep, its slope −φ·keep·drop, and that of 1/keep −drop/keep.

    Args:
        weights: Those of a layer.  # (fan out, features)
        logit: Of its mask: one for each feature, or a single one.
        length_scale: The prior's length scale, ℓ.
    """
    norms = column_products(weights, weights)  # (features,)
    times = weights.shape[1] // logit.shape[0]
    if times > 1:
        norms = norms.sum(0, keepdim=True)
    keep = torch.sigmoid(logit)
    scale = keep.reciprocal() * length_scale**2  # ℓ²/keep
    of_norms = norms * scale * 0.5
    kept = logit * keep
    entropy = nn.functional.softplus(logit) - kept
    if times > 1:
        entropy, kept = entropy * times, kept * times
    value = (of_norms - entropy).sum()
    by_logit = (kept - of_norms) * torch.sigmoid(-logit)
    return Slopes(value, scale, by_logit)


class _LearnedBernoulliKL(Derivative):
    """The divergence, whose slopes are known when it is."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weights: Tensor, logit: Tensor, length_scale: float | Tensor) -> tuple[Tensor, ...]:
        return tuple(_learned_bernoulli_slopes(weights, logit, length_scale))  # vmap wants a tuple

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        weights, logit, length_scale = inputs
        ctx.mark_non_differentiable(output[1], output[2])
        given = length_scale if isinstance(length_scale, Tensor) else None
        ctx.length_scale = None if given is not None else length_scale
        ctx.save_for_backward(weights, logit, given, output[1], output[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None, None]:
        weights, logit, given, scale, by_logit = ctx.saved_tensors
        g = gradients[0]
        if torch.is_grad_enabled():  # to be differentiated once more
            length_scale = ctx.length_scale if given is None else given
            _, scale, by_logit = _learned_bernoulli_slopes(weights, logit, length_scale)
        return weights * (g * scale) if ctx.needs_input_grad[0] else None, g * by_logit, None
