"""Bins of equal width."""

import torch
from torch import Tensor

from dubio.metrics.counts import check_count
from dubio.metrics.states import check_counted


def check_bins(bins: int) -> None:
    """Complain about what is no number of bins."""
    check_count(bins, 1, "bins", "15 is a common choice")


def bin_sums(position: Tensor, values: Tensor, hits: Tensor, bins: int) -> Tensor:
    """Return sums of values and hits, and counts, by bins of a position in [0, 1]: `(3, M)`.

    Bin m holds positions in ((m - 1)/M, m/M], the first also 0.
    """
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device=position.device)
    place = torch.bucketize(position, edges[1:-1].to(position.dtype))
    parts = torch.stack([values.double(), hits, torch.ones_like(hits)])  # (3, N)
    sums = torch.zeros(3, bins, dtype=torch.float64, device=position.device)
    return sums.index_add_(1, place, parts)


def bin_means(sums: Tensor, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Mean values and shares of hits, NaN in empty bins, and the cases, from `bin_sums`."""
    values, hits, cases = sums
    check_counted(int(cases.sum()), name)
    return values / cases, hits / cases, cases
