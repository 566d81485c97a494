"""Contexts of one kind, as tensors for a network."""

from typing import final

import torch
from torch import Tensor

from dubio.decide.arguments import ArrayLike, all_finite, as_tensor


@final
class Contexts:
    """Reads contexts; the first ones accepted fix the form of all others.

    Floating contexts get the type of the network. Whole numbers stay what they are, for networks
    that embed them, unless there were floating ones before.

    Args:
        like: A tensor of the network's type and device.
        flat: Whether one context must be a vector.
    """

    def __init__(self, like: Tensor, *, flat: bool) -> None:
        self._like = like
        self._flat = flat
        self._before: Tensor | None = None  # (0, ...)

    @property
    def are_new(self) -> bool:
        """Whether none were accepted so far."""
        return self._before is None

    def accept(self, rows: Tensor) -> None:
        """Expect such contexts from now on."""
        if self._before is None:
            self._before = rows.new_empty((0, *rows.shape[1:]))

    def read(self, values: ArrayLike) -> Tensor:  # (B, ...)
        """Return the contexts as a copy, or an error."""
        contexts = as_tensor("contexts", values)
        if contexts.ndim < 2 or len(contexts) == 0 or (self._flat and contexts.ndim != 2):
            raise ValueError(
                f"contexts: expected rows (B, D), at least one, got shape {tuple(contexts.shape)}; "
                "pass contexts[None] for a single one"
            )
        if self._flat or contexts.is_floating_point() or contexts.dtype == torch.bool:
            contexts = contexts.to(self._like.device, self._like.dtype)
        contexts = self._as_before(contexts).to(self._like.device)
        # a copy of its own: aligned as every tensor of torch, so that sums are rounded alike
        contexts = contexts.clone(memory_format=torch.contiguous_format)
        if not all_finite(contexts):
            rows = (~contexts.flatten(1).isfinite().all(1)).nonzero().flatten().tolist()
            raise ValueError(
                f"contexts: expected finite numbers, got NaN or infinite ones in {len(rows)} rows, "
                f"first in row {rows[0]}; impute them, or leave the rows out"
            )
        return contexts

    def state(self) -> Tensor | None:
        """Return what to save."""
        return self._before

    def load(self, state: Tensor | None) -> None:
        """Go on from a saved state."""
        self._before = state

    def _as_before(self, contexts: Tensor) -> Tensor:
        before = self._before
        if before is None:
            return contexts
        if contexts.shape[1:] != before.shape[1:]:
            raise ValueError(
                f"contexts: expected {_sizes(before)} numbers in each as before, got "
                f"{_sizes(contexts)}; an agent is for contexts of one kind"
            )
        if contexts.is_floating_point() and not before.is_floating_point():
            raise ValueError(
                f"contexts: expected whole numbers as before, got {contexts.dtype}; an agent is "
                "for contexts of one kind"
            )
        return contexts.to(before.dtype)


def _sizes(contexts: Tensor) -> str:
    return " × ".join(map(str, contexts.shape[1:]))
