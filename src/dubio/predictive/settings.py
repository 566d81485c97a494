"""Settings of a likelihood as plain values, to compare and save it."""

from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from dubio.likelihoods import Likelihood


def settings_of(likelihood: Likelihood) -> dict[str, Any] | None:
    """Return the settings of a likelihood that is a dataclass, by name; None of others."""
    if not is_dataclass(likelihood):
        return None
    return {each.name: getattr(likelihood, each.name) for each in fields(likelihood)}


def is_same_likelihood(one: Likelihood, other: Likelihood) -> bool:
    """Return whether two likelihoods are of one class and have equal settings."""
    if one is other:
        return True
    own, others = settings_of(one), settings_of(other)
    if type(one) is not type(other) or own is None or others is None:
        return False
    return all(_is_equal(value, others[name]) for name, value in own.items())


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        a, b = torch.as_tensor(one).cpu(), torch.as_tensor(other).cpu()
        return a.shape == b.shape and bool((a == b).all())
    return bool(one == other)
