"""Bins of equal width."""

from typing import Any

import torch
from torch import Tensor

from dubio.metrics.counts import check_count
from dubio.metrics.states import Summed, check_counted


def check_bins(bins: int) -> None:
    """Raise an error unless this is a number of bins."""
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
    """Return mean values and shares of hits, NaN in empty bins, and counts, from `bin_sums`."""
    values, hits, cases = sums
    check_counted(int(cases.sum()), name)
    return values / cases, hits / cases, cases


class BinnedSums(Summed):
    """A metric that adds up `bin_sums`: `(3, M)`.

    Args:
        bins: Number of bins, M.
        void: The label of rows or pixels to ignore.
        kwargs: Options of torchmetrics.
    """

    def __init__(self, *, bins: int, void: int | None = None, **kwargs: Any) -> None:
        check_bins(bins)
        super().__init__(3, bins, **kwargs)
        self.bins, self.void = bins, void

    def means(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the `bin_means` so far."""
        return bin_means(self.sums, type(self).__name__)
