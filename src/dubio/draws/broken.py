"""Outputs of which no prediction can be made: NaN, and infinite numbers."""

import math
import warnings
from typing import final

import torch
from torch import Tensor

from dubio.likelihoods import Likelihood


@final
class Broken:
    """Notes the rows of which some draw is broken, and warns of them once.

    Such rows go on, so that the others have their predictions and `decide.Deferral` can leave these
    to a human.

    Args:
        likelihood: What the outputs mean; minus infinity is a fine score of a class.
    """

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood
        self._rows: set[int] = set()
        self._warned = False

    def see(self, outputs: Tensor, start: int = 0) -> None:
        """Look at some draws `(S, B, ...)` of the rows from a number on."""
        whole = torch.float32 if outputs.dtype.itemsize < 4 else outputs.dtype
        if self._warned or math.isfinite(outputs.detach().sum(dtype=whole)):
            return
        rows = self._likelihood.broken(outputs).nonzero().squeeze(-1)
        self._rows.update((rows + start).tolist())

    def warn(self, rows: int, calls: int) -> None:
        """Tell whoever is so many calls away of the broken ones among so many rows, once."""
        if self._rows and not self._warned:
            warnings.warn(
                f"predict: expected finite outputs of the network, got NaN or infinite ones in "
                f"{len(self._rows)} of {rows} rows, first in row {min(self._rows)}; these have no "
                f"sensible prediction: look for overflow in half precision, logarithms of 0 and "
                f"divisions by 0, or remove the rows",
                RuntimeWarning,
                stacklevel=calls + 1,
            )
        self._warned = True
