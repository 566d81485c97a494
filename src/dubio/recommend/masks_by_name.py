"""Masks as settings: made for a number of items, and written as a name."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from dubio import masks
from dubio.masks import Mask
from dubio.recommend.step_noise import check_noises

MakeMask: TypeAlias = Callable[..., Mask]  # (units, drop=…) -> Mask


def make_mask(make: MakeMask | None, items: int, drop: float) -> Mask | None:
    """Return a mask with a rate for each item."""
    if make is None:
        return None
    if isinstance(make, Mask):
        raise TypeError(
            f"mask: expected a class, which is called with the number of items, got a "
            f"{type(make).__name__}; give masks.{type(make).__name__}, or a functools.partial of it"
        )
    kind, _ = _taken_apart(make)
    if not callable(make) or (isinstance(kind, type) and not issubclass(kind, Mask)):
        raise TypeError(
            f"mask: expected a class of dubio.masks, or a functools.partial of one, got {make!r}; "
            "try masks.LearnableBernoulli"
        )
    mask = make(items, drop=drop)
    if not isinstance(mask, Mask) or mask.units not in (1, items):
        raise TypeError(
            f"mask: expected a class of dubio.masks, called with {items} units, got {mask!r} from "
            f"it; try masks.LearnableBernoulli"
        )
    check_noises(mask)
    return mask


def mask_setting(make: MakeMask | None) -> Any:
    """Return the class of a mask as JSON can hold it."""
    if make is None:
        return None
    kind, options = _taken_apart(make)
    name = getattr(kind, "__name__", repr(kind))
    if getattr(masks, name, None) is not kind:
        raise TypeError(
            f"mask: expected a class of dubio.masks, or a functools.partial of one, in a model "
            f"that is saved, got {name}; a file holds no code"
        )
    return {"name": name, "options": options}


def mask_name(make: MakeMask | None) -> str:
    """Return what makes the mask, in words that are the same in every process."""
    kind, options = _taken_apart(make)
    named = kind if hasattr(kind, "__qualname__") else type(kind)
    return f"{named.__module__}.{named.__qualname__} {options or ''}".strip()


def _taken_apart(make: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class, and the options of a partial of it."""
    return (make.func, make.keywords) if isinstance(make, partial) else (make, {})


def mask_of_setting(setting: Any) -> MakeMask | None:
    """Return the class again."""
    if setting is None:
        return None
    if setting["name"] not in masks.__all__:
        raise ValueError(
            f"mask: expected one of {', '.join(masks.__all__)}, got {setting['name']!r}; load the "
            "model with the version of dubio that has saved it"
        )
    options = dict(setting["options"])
    made: MakeMask = getattr(masks, setting["name"])
    if made is masks.Gaussian and options.pop("learn", False):  # its name in older files
        made = masks.LearnableGaussian
    return partial(made, **options) if options else made
