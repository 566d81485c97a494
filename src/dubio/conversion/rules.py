"""Ready-made rules for replacing layers.

A rule is any function of a `Place` that returns a module, or None. Rules can be put together::

    first, second = dubio.rules.replace_dropout(...), dubio.rules.mask_inputs(...)
    dubio.convert(model, lambda place: first(place) or second(place))
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final, get_args

import torch
from torch import nn

from dubio.conversion.places import Place, Rule
from dubio.layers.bayesian import Bayesian, Sampler, check_noise
from dubio.layers.masked import Masked
from dubio.layers.row_noise import is_linear
from dubio.masks.mask import Mask
from dubio.noise.sites import Where, chooser
from dubio.priors import Gaussian, Prior

__all__ = ["MaskMaker", "Place", "Rule", "bayes", "lora", "mask_inputs", "replace_dropout"]

LoraFactor = Literal["A", "B", "both"]


class MaskMaker(Protocol):
    """A function that makes masks, such as a class from `dubio.masks`."""

    def __call__(self, units: int, *, drop: float) -> Mask:
        """Make a mask with this many rates, which start from ``drop``."""
        ...


def replace_dropout(
    mask: MaskMaker,
    *,
    where: Where[Place] = None,
    per_unit: bool = False,
    length_scale: float = 1e-2,
) -> Rule:
    """Return a rule that replaces dropouts by masks on the layers that they feed.

    Each mask starts from the rate of its dropout.

    Args:
        mask: What makes the masks: a class such as `dubio.masks.Concrete`, or a function of
            ``units`` and ``drop``.
        where: Which layers: a glob pattern for names, such as ``"head.*"``, a class, a module (with
            all layers in it), a predicate on `Place`, or a list of those. None for all.
        per_unit: Whether every unit has its own rate, instead of one rate per layer.
        length_scale: Length scale ℓ of the prior N(0, 1/ℓ²) on each weight.
    """
    return _Masking(mask, where, None, per_unit, length_scale)


def mask_inputs(
    mask: MaskMaker,
    *,
    where: Where[Place] = None,
    drop: float = 0.1,
    per_unit: bool = False,
    length_scale: float = 1e-2,
) -> Rule:
    """Return a rule that masks the inputs of layers, whether a dropout feeds them or not.

    A dropout that feeds a masked layer is replaced by the mask. The first layer is masked too:
    exclude it with ``where`` if the raw inputs should not be masked.

    Args:
        mask: What makes the masks: a class such as `dubio.masks.Concrete`, or a function of
            ``units`` and ``drop``.
        where: Which layers: a glob pattern for names, such as ``"head.*"``, a class, a module (with
            all layers in it), a predicate on `Place`, or a list of those. None for all.
        drop: Initial dropout rate.
        per_unit: Whether every unit has its own rate, instead of one rate per layer.
        length_scale: Length scale ℓ of the prior N(0, 1/ℓ²) on each weight.
    """
    return _Masking(mask, where, drop, per_unit, length_scale)


def bayes(
    prior: Prior | Callable[[Place], Prior] = Gaussian(1.0),  # noqa: B008  (an immutable value)
    *,
    where: Where[Place] = None,
    sampler: Sampler = "weights",
    deviation: float = 0.01,
) -> Rule:
    """Return a rule that puts a Gaussian on the weights of layers: `dubio.Bayesian`.

    The Gaussians are centred on the current weights. A dropout that feeds only such layers is
    removed.

    Args:
        prior: The prior of each weight, or a function that makes one for a `Place`, such as
            ``lambda place: Gaussian.around(place.layer, sigma=0.1)``.
        where: Which layers: a glob pattern for names, such as ``"head.*"``, a class, a module (with
            all layers in it), a predicate on `Place`, or a list of those. None for all.
        sampler: How noise enters torch's linear layers and convolutions; other layers, and those
            under a parametrization, sample their weights.
        deviation: Initial standard deviation of every weight.
    """
    return _Weighing(prior, where, sampler, deviation)


def lora(
    factor: LoraFactor = "A",
    *,
    prior: Prior | Callable[[Place], Prior] | None = None,
    where: Where[Place] = None,
    sampler: Sampler = "weights",
    deviation: float | None = None,
) -> Rule:
    """Return a rule that puts a Gaussian on low-rank adapters of PEFT: `dubio.Bayesian`.

    An adapter adds s·B·A to the weights of a layer, with A of shape (r, in), drawn at random, and B
    of shape (out, r), zero (Hu et al. 2022, section 4.1). A distribution on A alone is one on the
    product, of the rank of B and with fewer numbers to learn than on both; and while B is zero
    every draw is the original network (Wang et al. 2024, section 3.1). All other weights stay as
    they are, those of the base model frozen, with one copy for all draws. If A is replaced, the
    adapter's dropout is removed.

    Args:
        factor: Which of the two: "A", "B" or "both".
        prior: The prior of each weight, or a function that makes one for a `Place`. By default N(0,
            1/(3·n)) for a layer with n inputs (r for B): the variance that A is drawn with.
        where: Which adapters, as for the other rules; for example ``"*.q_lin.*"``.
        sampler: How noise enters, as for `bayes`.
        deviation: Initial standard deviation of every weight; by default a tenth of that of the
            default prior.
    """
    return _Adapting(factor, prior, where, sampler, deviation)


_ADAPTER = re.compile(r"(^|\.)lora_(?P<factor>[AB])(\.|$)")  # as PEFT names the factors


@final
@dataclass(frozen=True, repr=False)
class _Adapting:
    """Puts the factors of low-rank adapters into `Bayesian`."""

    factor: LoraFactor
    prior: Prior | Callable[[Place], Prior] | None
    where: Where[Place]
    sampler: Sampler
    deviation: float | None

    def __post_init__(self) -> None:
        if self.factor not in get_args(LoraFactor):
            raise ValueError(f"factor: expected 'A', 'B' or 'both', got {self.factor!r}")
        self._weighing(1)  # complains if it must

    def __call__(self, place: Place) -> nn.Module | None:
        found = _ADAPTER.search(place.name)
        if found is None or self.factor not in ("both", found["factor"]):
            return None
        weight = next(place.layer.parameters())  # (out, in, …)
        return self._weighing(weight[0].numel())(place)

    def _weighing(self, fan_in: int) -> Rule:
        scale = 1 / math.sqrt(3 * fan_in)
        prior = Gaussian(scale) if self.prior is None else self.prior
        start = 0.1 * scale if self.deviation is None else self.deviation
        return _Weighing(prior, self.where, self.sampler, start)

    def __repr__(self) -> str:
        prior = "" if self.prior is None else f", {_name(self.prior)}"
        return f"lora({self.factor!r}{prior}, sampler={self.sampler!r}{_chosen(self.where)})"


@final
@dataclass(frozen=True, repr=False)
class _Weighing:
    """Puts layers into `Bayesian`."""

    prior: Prior | Callable[[Place], Prior]
    where: Where[Place]
    sampler: Sampler
    deviation: float

    def __post_init__(self) -> None:
        check_noise(self.sampler, self.deviation)
        if isinstance(self.prior, type) or not isinstance(self.prior, Prior | Callable):
            raise TypeError(
                f"prior: expected one from dubio.priors or a function of a place, got "
                f"{self.prior!r}"
            )
        chooser(self.where)  # complains about what cannot choose

    def __call__(self, place: Place) -> nn.Module | None:
        if not chooser(self.where)(place):
            return None
        prior = self.prior if isinstance(self.prior, Prior) else self.prior(place)
        sampler = self.sampler if is_linear(place.layer) else "weights"
        return Bayesian(place.layer, prior=prior, sampler=sampler, deviation=self.deviation)

    def __repr__(self) -> str:
        return f"bayes({_name(self.prior)}, sampler={self.sampler!r}{_chosen(self.where)})"


@final
@dataclass(frozen=True, repr=False)
class _Masking:
    """Puts layers into `Masked`, all that are chosen or only those that a dropout feeds."""

    mask: MaskMaker
    where: Where[Place]
    drop: float | None
    per_unit: bool
    length_scale: float

    def __post_init__(self) -> None:
        if not callable(self.mask) or isinstance(self.mask, nn.Module):
            raise TypeError(
                f"mask: expected a class from dubio.masks or a function of units and drop, got "
                f"{self.mask!r}; every layer gets a mask of its own"
            )
        chooser(self.where)  # complains about what cannot choose

    def __call__(self, place: Place) -> nn.Module | None:
        drop = place.drop if self.drop is None else self.drop
        if drop is None or place.features is None or not chooser(self.where)(place):
            return None
        mask = self.mask(place.features if self.per_unit else 1, drop=drop)
        if not isinstance(mask, Mask):
            raise TypeError(
                f"mask: expected a function that returns a mask from dubio.masks, got "
                f"{type(mask).__name__}"
            )
        weight = next(place.layer.parameters())
        dtype = torch.promote_types(weight.dtype, torch.get_default_dtype())  # no rates in half
        return Masked(place.layer, mask.to(weight.device, dtype), length_scale=self.length_scale)

    @property
    def advice(self) -> str:
        """What to do where the rule fits no layer."""
        without = "It replaces dropouts; dubio.rules.mask_inputs gives layers masks without one"
        return without if self.drop is None else ""

    def __repr__(self) -> str:
        maker = "replace_dropout" if self.drop is None else "mask_inputs"
        return f"{maker}({_name(self.mask)}{_chosen(self.where)})"


def _chosen(where: Where[Place]) -> str:
    """Return the choice of layers as a last argument, if there is one."""
    if where is None:
        return ""
    choices = where if isinstance(where, list | tuple) else [where]
    return f", where={', '.join(map(_name, choices))}"


def _name(thing: Any) -> str:
    if isinstance(thing, nn.Module):
        return f"<{type(thing).__name__}>"
    if isinstance(thing, str):
        return repr(thing)
    return str(getattr(thing, "__name__", repr(thing)))
