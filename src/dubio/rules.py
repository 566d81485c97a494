"""Ready-made rules: what to put in the place of a layer.

A rule is any function of a `Place` that returns a module, or None. Rules can be put together::

    first, second = dubio.rules.replace_dropout(...), dubio.rules.mask_inputs(...)
    dubio.convert(model, lambda place: first(place) or second(place))
"""

from dataclasses import dataclass
from typing import Any, Protocol, final

import torch
from torch import nn

from dubio.conversion.places import Place, Rule
from dubio.interception.sites import Where, chooser
from dubio.layers.masked import Masked
from dubio.masks.mask import Mask

__all__ = ["MaskMaker", "Place", "Rule", "mask_inputs", "replace_dropout"]


class MaskMaker(Protocol):
    """Makes masks: a class from `dubio.masks`, or a function."""

    def __call__(self, units: int, *, drop: float) -> Mask:
        """A mask with so many rates, which start from ``drop``."""
        ...


def replace_dropout(
    mask: MaskMaker,
    *,
    where: Where[Place] = None,
    per_unit: bool = False,
    length_scale: float = 1e-2,
) -> Rule:
    """Layers that a dropout feeds get a mask in its stead, with its rate.

    Args:
        mask: What makes the masks: a class such as `dubio.masks.Concrete`, or a function of
            ``units`` and ``drop``.
        where: Which layers: a pattern for their names, such as ``"head.*"``, a class, a module
            (with all layers in it), a predicate on `Place`, or a list of those. None for all.
        per_unit: Whether every unit has a rate of its own, or the layer one.
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
    """Layers get a mask, whether a dropout feeds them or not; if one does, the mask replaces it.

    So a network without dropout gets some. The first layer is no exception: if the raw inputs are
    not to be masked, leave it out by ``where``.

    Args:
        mask: What makes the masks: a class such as `dubio.masks.Concrete`, or a function of
            ``units`` and ``drop``.
        where: Which layers: a pattern for their names, such as ``"head.*"``, a class, a module
            (with all layers in it), a predicate on `Place`, or a list of those. None for all.
        drop: The rate to start from.
        per_unit: Whether every unit has a rate of its own, or the layer one.
        length_scale: Length scale ℓ of the prior N(0, 1/ℓ²) on each weight.
    """
    return _Masking(mask, where, drop, per_unit, length_scale)


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
                f"{self.mask!r}; every layer gets a mask of its own."
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
                f"{type(mask).__name__}."
            )
        weight = next(place.layer.parameters())
        dtype = torch.promote_types(weight.dtype, torch.get_default_dtype())  # no rates in half
        return Masked(place.layer, mask.to(weight.device, dtype), length_scale=self.length_scale)

    def __repr__(self) -> str:
        arguments = [_name(self.mask)]
        if self.where is not None:
            where = self.where if isinstance(self.where, list | tuple) else [self.where]
            arguments.append(f"where={', '.join(map(_name, where))}")
        maker = "replace_dropout" if self.drop is None else "mask_inputs"
        return f"{maker}({', '.join(arguments)})"


def _name(thing: Any) -> str:
    if isinstance(thing, nn.Module):
        return f"<{type(thing).__name__}>"
    if isinstance(thing, str):
        return repr(thing)
    return str(getattr(thing, "__name__", repr(thing)))
