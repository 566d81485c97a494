"""What all masks have in common."""

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self, SupportsFloat

import torch
from torch import Tensor, nn

from dubio.noise.stochastic import is_silent, own_noise
from dubio.noise.vectorised import vectorised


class Mask(nn.Module, ABC):
    """Multiplicative noise with mean one for the units that feed a layer.

    There is one entry for every row and unit; positions, pixels and time steps share it, so that a
    row sees one set of weights. ``units=1`` gives all units one rate, not one mask.

    Args:
        units: How many rates: 1, or one for each unit or channel.
        drop: The dropout rate to start from.
    """

    distribution: ClassVar[Literal["uniform", "normal"]]

    def __init__(self, units: int, *, drop: float) -> None:
        super().__init__()
        if isinstance(units, bool) or not isinstance(units, int) or units < 1:
            raise ValueError(f"units: expected a whole number from 1, got {units!r}.")
        if not (isinstance(drop, SupportsFloat) and 0.0 < drop < 1.0):
            raise ValueError(f"drop: expected a rate between 0 and 1, got {drop!r}; try drop=0.1.")
        self.units = units

    @property
    @abstractmethod
    def keep(self) -> Tensor:
        """Probability of keeping, by unit: (units,)."""

    @property
    def drop(self) -> Tensor:
        """The current dropout rates: (units,)."""
        return (1.0 - self.keep).detach()

    @abstractmethod
    def multiplier(self, noise: Tensor, axis: int) -> Tensor:
        """The mask, from noise with the units on ``axis``."""

    @abstractmethod
    def kl(self, squared_norms: Tensor, length_scale: float, fan_out: int) -> Tensor:
        """KL of the masked weights from a Gaussian prior of variance ``1/length_scale²``.

        Args:
            squared_norms: Squared norm of the weights that each unit feeds.  # (features,)
            length_scale: The prior's length scale.
            fan_out: How many weights each unit feeds.
        """

    def forward(self, x: Tensor, *, axis: int = -1, rows: int = 0) -> Tensor:
        """Perturb x, whose units are on ``axis`` and whose rows are on ``rows``."""
        (masked,) = self.perturb(x, axis=axis, rows=rows)
        return masked

    def perturb(self, x: Tensor, *others: Tensor, axis: int = -1, rows: int = 0) -> list[Tensor]:
        """Perturb x, and others that share its rows and units, by one and the same mask."""
        if is_silent(self):
            return [x, *others]
        with torch._C.DisableTorchFunction():  # nothing in here is for an interceptor to see
            axis = axis % x.dim()
            self._check(x, axis, rows)
            shape = [1] * x.dim()
            shape[axis] = x.shape[axis]
            shape[rows] = x.shape[rows]
            return self._multiply([x, *others], tuple(shape), rows, axis)

    def perturb_weights(self, weights: Tensor) -> Tensor:  # (weights,)
        """Perturb a list of weights, each a unit of its own, by the same mask for all rows."""
        with torch._C.DisableTorchFunction():
            return self._multiply([weights], tuple(weights.shape), None, 0)[0]

    def _multiply(
        self, xs: list[Tensor], shape: tuple[int, ...], rows: int | None, axis: int
    ) -> list[Tensor]:
        noise = own_noise(
            self, self.distribution, shape, xs[0], rows=rows, units=axis, rate=self.mean_drop
        )
        return xs if noise is None else self.multiply(xs, noise, axis)

    def multiply(self, xs: list[Tensor], noise: Tensor, axis: int) -> list[Tensor]:
        """Multiply tensors by the mask that the noise makes."""
        multiplier = self.multiplier(noise, axis)
        return [x * multiplier.to(x.dtype) for x in xs]

    def _check(self, x: Tensor, axis: int, rows: int) -> None:
        if self.units not in (1, x.shape[axis]):
            raise ValueError(
                f"{type(self).__name__}: expected {self.units} units on axis {axis}, got a tensor "
                f"of shape {tuple(x.shape)}; make the mask with units={x.shape[axis]} or units=1."
            )
        if axis == rows:
            raise ValueError(
                f"{type(self).__name__}: expected a batch with rows on axis {rows} and units on "
                f"another, got shape {tuple(x.shape)}; add an axis with x[None]."
            )

    def mean_drop(self) -> float:
        """The mean of the current rates."""
        return float(self.drop.mean())

    def tied(self) -> Self:
        """Another mask with the same parameters, for a layer that is to share the rate."""
        return copy.copy(self)

    def extra_repr(self) -> str:
        """Units and mean rate."""
        return f"units={self.units}, drop={self.mean_drop():.3g}"


class LearnedRate(Mask, ABC):
    """A mask whose rates are learned.

    Attributes:
        logit: The logit of keeping, by unit: the parameter.
    """

    def __init__(self, units: int = 1, *, drop: float = 0.1) -> None:
        super().__init__(units, drop=drop)
        start = torch.full((units,), 1.0 - drop, dtype=torch.float64).logit()
        self.logit = nn.Parameter(start.to(torch.get_default_dtype()))

    @property
    def keep(self) -> Tensor:
        """Probability of keeping, by unit: (units,)."""
        return torch.sigmoid(self.logit)

    def logit_along(self, noise: Tensor, axis: int) -> Tensor:
        """The logits laid out along the axis of the units."""
        return along(self.logit, noise, axis)


def along(values: Tensor, noise: Tensor, axis: int) -> Tensor:
    """Lay values by unit out along an axis of the noise, in its dtype."""
    return values.to(noise.dtype).view([-1 if i == axis else 1 for i in range(noise.dim())])


def bernoulli_kl(squared_norms: Tensor, keep: Tensor, length_scale: float) -> Tensor:
    """Expected squared norm of masked weights under the prior: Σ_k ℓ²‖W_k‖² / (2·keep_k).

    Paper 001 eq. 3 (paper 002 eq. 9) has keep·ℓ²/2·‖M_k‖² for unscaled masks; with inverse scaling
    M = W/keep.
    """
    return 0.5 * length_scale**2 * (squared_norms / keep).sum()


def learned_bernoulli_kl(squared_norms: Tensor, logit: Tensor, length_scale: float) -> Tensor:
    """Σ_k ℓ²‖W_k‖²/(2·keep_k) − H(keep_k), keep = σ(φ) (paper 001 eqs. 3–4, 000 section 2.2)."""
    if vectorised():
        keep = torch.sigmoid(logit)
        entropy = (nn.functional.softplus(logit) - logit * keep).expand_as(squared_norms)
        return bernoulli_kl(squared_norms, keep, length_scale) - entropy.sum()
    divergence: Tensor = _LearnedBernoulliKL.apply(squared_norms, logit, length_scale)  # type: ignore[no-untyped-call]
    return divergence


class _LearnedBernoulliKL(torch.autograd.Function):
    """With 1/keep = 1 + e^{−φ} and the entropy H = log(1 + e^φ) − φ·keep, H' = −φ·keep·drop."""

    @staticmethod
    def forward(ctx: Any, squared_norms: Tensor, logit: Tensor, length_scale: float) -> Tensor:
        ctx.save_for_backward(squared_norms, logit)
        ctx.half_square = 0.5 * length_scale**2
        keep = torch.sigmoid(logit)
        entropy = nn.functional.softplus(logit) - logit * keep
        times = len(squared_norms) // len(logit)  # one rate may be that of all units
        norms: Tensor = ctx.half_square * (squared_norms / keep).sum()
        return norms - times * entropy.sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, None]:
        squared_norms, logit = ctx.saved_tensors
        (g,) = gradients
        keep = torch.sigmoid(logit)
        odds = torch.exp(-logit)  # drop/keep
        times = len(squared_norms) // len(logit)
        of_norms = (g * ctx.half_square * (1 + odds)).expand_as(squared_norms)
        of_scale = -ctx.half_square * (squared_norms * odds).sum_to_size(logit.shape)
        return of_norms, g * (of_scale + times * logit * keep * (1 - keep)), None
