"""Bins of equal width."""

from operator import index
from typing import SupportsIndex

import torch
from torch import Tensor


def check_bins(bins: int) -> None:
    """Complain about what is no number of bins."""
    if isinstance(bins, bool) or not isinstance(bins, SupportsIndex) or index(bins) < 1:
        raise ValueError(f"bins: expected a positive int, got {bins!r}; 15 is a common choice")


def bin_sums(position: Tensor, values: Tensor, bins: int) -> Tensor:
    """Sums of values `(V, N)` over bins of equal width of a position in [0, 1]: `(V, M)`."""
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device=position.device)
    place = torch.bucketize(position, edges[1:-1].to(position.dtype))  # (a, b]
    sums = torch.zeros(len(values), bins, dtype=torch.float64, device=position.device)
    return sums.index_add_(1, place, values.double())
