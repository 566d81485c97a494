"""Modules fitted on validation data."""

import math
from ast import literal_eval
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from dubio.noise.float64 import has_float64
from dubio.predictive.predictive import Predictive


class Fitted(nn.Module):
    """Values that validation data give, kept as buffers: `state_dict` holds all of them.

    A state is plain tensors, so that ``torch.save(it.state_dict(), path)`` and
    ``it.load_state_dict(torch.load(path, weights_only=True))`` keep it without a pickle; one of
    them spells the name of the class, so that no other class takes it, and the sizes. A value that
    is not known yet is NaN. Values keep their precision in ``.half()`` and the like: rounding a
    threshold would void what it promises. They stay on the CPU if a device has no float64.

    Attributes:
        sizes: How many classes there were, or the shape of a real target, -1 for any size; None if
            that is not known.
    """

    _values: ClassVar[tuple[str, ...]]  # the names of what is fitted
    _fitted_by: ClassVar[str] = "fit"  # the methods that take validation data

    def __init__(self) -> None:
        super().__init__()
        for name in self._values:
            self.register_buffer(name, torch.tensor(math.nan, dtype=torch.float64))
        self.sizes: tuple[int, ...] | None = None

    def get_extra_state(self) -> Tensor:
        """Return the class name and the sizes in UTF-8: ``TemperatureScaling (10,)``."""
        text = f"{type(self).__name__} {self.sizes}"
        return torch.tensor(list(text.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the sizes: `_load_from_state_dict` has compared the names."""
        self.sizes = _name_and_sizes(state)[1]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = dict(self.named_buffers(recurse=False))
        for name, buffer in before.items():
            setattr(self, name, buffer.float())  # where it may go, float64 or not
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in before.items():
            there = getattr(self, name).device
            setattr(self, name, buffer.to(there) if has_float64(there) else buffer)
        return self

    def _keep(self, name: str, value: Tensor) -> None:
        setattr(self, name, value.detach().clone())

    def _keep_sizes(self, p: Predictive) -> None:
        self.sizes = _sizes(p)

    def _check_sizes(self, p: Predictive) -> None:
        """Raise an error for a prediction of other targets than the validation data."""
        expected, found = self.sizes, _sizes(p)
        if expected is None or expected == found:
            return
        if p.likelihood.discrete:
            raise ValueError(
                f"p: expected {expected[0]} classes, as in the validation data, got {found[0]}; "
                "fit on predictions of the same classes"
            )
        raise ValueError(
            f"p: expected targets of shape {expected}, as in the validation data, got "
            f"{found}; fit on predictions of the same targets"
        )

    def _known(self, name: str) -> Tensor:
        value: Tensor = getattr(self, name)
        if bool(value.isnan().any()):
            raise RuntimeError(
                f"{type(self).__name__}: expected a {name} from validation data, got none yet; "
                f"call {self._fitted_by} first, or load a state"
            )
        return value

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *arguments: Any
    ) -> None:
        saved = state_dict.get(f"{prefix}_extra_state")
        if saved is not None and _name_and_sizes(saved)[0] != type(self).__name__:
            *_, messages = arguments
            messages.append(
                f"{prefix}state: expected that of a {type(self).__name__}, got that of another "
                f"class, {_name_and_sizes(saved)[0]}; load it into the class that was saved"
            )
            return
        for name, buffer in self.named_buffers(recurse=False):
            if (value := state_dict.get(prefix + name)) is not None:
                setattr(self, name, buffer.new_empty(value.shape, dtype=value.dtype))
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def _name_and_sizes(state: Tensor) -> tuple[str, tuple[int, ...] | None]:
    name, _, sizes = bytes(state.tolist()).decode().partition(" ")
    return name, literal_eval(sizes or "None")


def _sizes(p: Predictive) -> tuple[int, ...]:
    """Return what predictions must agree in: classes, or outputs; images may be of any size."""
    if p.likelihood.discrete:
        return (p.likelihood.by_label(p.mean).shape[-1],)
    event = p.mean.shape[1:]
    return tuple(event) if len(event) < 2 else (-1,) * len(event)
