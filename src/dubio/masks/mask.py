"""What all masks have in common."""

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from dubio.stochastic import own_noise


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
        if units < 1:
            raise ValueError(f"units: expected at least 1, got {units}.")
        if not 0.0 < drop < 1.0:
            raise ValueError(f"drop: expected a rate between 0 and 1, got {drop}.")
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
        multiplier = self.sample(x, axis=axis, rows=rows)
        return x if multiplier is None else x * multiplier

    def sample(self, x: Tensor, *, axis: int = -1, rows: int = 0) -> Tensor | None:
        """What x is to be multiplied by; None where the mask behaves like its mean."""
        axis = axis % x.dim()
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
        shape = [1] * x.dim()
        shape[axis] = x.shape[axis]
        shape[rows] = x.shape[rows]
        noise = own_noise(
            self, self.distribution, tuple(shape), x, rows=rows, units=axis, rate=self.mean_drop
        )
        return None if noise is None else self.multiplier(noise, axis).to(x.dtype)

    def sample_weights(self, weight: Tensor, count: int) -> Tensor | None:  # (count,)
        """What ``count`` weights are to be multiplied by, the same for all rows."""
        noise = own_noise(
            self, self.distribution, (count,), weight, rows=None, units=0, rate=self.mean_drop
        )
        return None if noise is None else self.multiplier(noise, 0).to(weight.dtype)

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


def bernoulli_entropy(logit: Tensor) -> Tensor:
    """H(keep) = −keep·log keep − drop·log drop, in nats, from the logit."""
    keep = torch.sigmoid(logit)
    return nn.functional.softplus(logit) - logit * keep
