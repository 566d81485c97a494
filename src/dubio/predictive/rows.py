"""Select rows of a prediction by a slice, a mask, or indices."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

RowIndex: TypeAlias = slice | Tensor | np.ndarray[Any, Any] | Sequence[int] | Sequence[bool]


def chosen_rows(key: RowIndex, rows: int, device: torch.device) -> slice | Tensor:
    """Return an index that selects these rows of a tensor, in order; at least one."""
    if isinstance(key, slice):
        picked = range(rows)[key]
        found = key if picked.step > 0 else torch.tensor(picked, device=device, dtype=torch.long)
        count = len(picked)
    else:
        found = _indices(key, rows).to(device)
        count = len(found)
    if count == 0:
        raise IndexError(
            f"rows: expected at least one of {rows}, got none; a prediction of no rows has no "
            "distribution: check first that some are left"
        )
    return found


def _indices(key: Any, rows: int) -> Tensor:
    if isinstance(key, Integral) or (isinstance(key, Tensor | np.ndarray) and key.ndim == 0):
        raise TypeError(
            f"rows: expected a slice, a mask or indices, got {key!r}; a prediction keeps its axis "
            "of rows: write p[i : i + 1]"
        )
    if not isinstance(key, Tensor | np.ndarray | list | range):
        raise TypeError(
            f"rows: expected a slice, a mask or indices, got {key!r}; only rows can be picked: "
            "take columns from p.mean or p.draws"
        )
    try:
        found = torch.as_tensor(key)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"rows: expected a mask or indices, got {key!r}; {error}") from None
    if found.numel() == 0 and not isinstance(key, Tensor | np.ndarray):
        found = found.long()  # an empty list is one of floats
    if found.ndim != 1:
        raise IndexError(
            f"rows: expected one dimension, got shape {tuple(found.shape)}; reduce a mask of "
            "elements to one of rows, such as mask.any(-1)"
        )
    if found.dtype == torch.bool:
        if len(found) != rows:
            raise IndexError(
                f"rows: expected a mask for {rows} rows, got one for {len(found)}; make it from "
                "the very prediction that it picks from"
            )
        return found.nonzero().squeeze(-1)
    if found.is_floating_point() or found.is_complex():
        raise TypeError(
            f"rows: expected a mask of bool or indices of int, got {found.dtype}; write "
            "mask.bool() or indices.long()"
        )
    found = found.long()
    wrong = found[(found < -rows) | (found >= rows)]
    if len(wrong):
        raise IndexError(
            f"rows: expected indices from {-rows} to {rows - 1}, got {int(wrong[0])}; there are "
            f"{rows} rows"
        )
    return found % rows
