"""Split conformal prediction: sets and intervals with guaranteed coverage.

Validation rows give scores, large where a prediction is far from its target. A set holds the
targets whose score is at most the k-th smallest of n, k = ⌈(n + 1)(1 − α)⌉. If the validation rows
and a new row are exchangeable, the new row's score is equally likely to have any of the n + 1
ranks, and

    1 − α ≤ P(y ∈ C(x)) ≤ 1 − α + 1 / (n + 1),

the upper bound for scores without ties (Vovk et al. 2005; Lei et al. 2018). The network may be as
wrong as it likes: then sets are large. The probability is over validation and new rows together.
Given the validation rows, coverage on new ones has the law Beta(k, n + 1 − k), or lies above it if
scores tie: a standard deviation of about √(α(1 − α)/n).

Exchangeable means that validation rows went into nothing else: not into training, early stopping
or a temperature. It also needs rows with noise of their own, as `predict` gives them by default;
draws shared by a batch make validation and new rows the output of different functions.
"""

import math
from fractions import Fraction

import torch
from torch import Tensor

from dubio.likelihoods.quantiles import check_probability
from dubio.noise.float64 import in_float64
from dubio.predictive.fitted import Fitted


class Conformal(Fitted):
    """A threshold for scores, taken from validation rows at a conformal rank.

    Args:
        alpha: The wanted probability of a miss.

    Attributes:
        alpha: The same, a buffer.
        threshold: The k-th smallest score, a buffer.
    """

    alpha: Tensor
    threshold: Tensor
    _values = ("threshold",)

    def __init__(self, alpha: float = 0.1) -> None:
        super().__init__()
        advice = "0.1 asks for sets that hold the target nine times out of ten"
        check_probability("alpha", alpha, advice)
        self.register_buffer("alpha", torch.tensor(alpha, dtype=torch.float64))

    def extra_repr(self) -> str:
        """Return the settings that `nn.Module` prints."""
        return f"alpha={float(self.alpha):g}"

    def _calibrate(self, scores: Tensor, known: Tensor | None = None) -> None:
        """Take the threshold from scores `(n, *E)`, for each element of a target on its own.

        Args:
            scores: How far each target is from its prediction.
            known: Which targets are not missing, `(n, *E)`; all unless given.
        """
        scores = in_float64(scores)
        known = torch.ones_like(scores).bool() if known is None else known.to(scores.device)
        if bool(scores[known].isnan().any()):
            raise ValueError("p: expected finite predictions, got NaN; remove the rows")
        counts = known.sum(0)  # (*E)
        rows = counts.reshape(-1).tolist()
        ranks = {count: conformal_rank(count, float(self.alpha)) for count in set(rows)}
        places = torch.tensor([ranks[count] - 1 for count in rows], device=scores.device)
        places = places.reshape(1, *counts.shape)
        ordered = scores.where(known, math.inf).sort(dim=0).values
        self._keep("threshold", ordered.gather(0, places).squeeze(0))


def conformal_rank(rows: int, alpha: float) -> int:
    """Return ⌈(n + 1)(1 − α)⌉, with α read as a decimal: 0.07 is 7/100, not a binary float."""
    written = Fraction(repr(alpha))
    rank = math.ceil((rows + 1) * (1 - written))
    if rank > rows:
        raise ValueError(
            f"p: expected at least {math.ceil(1 / written) - 1} validation rows for "
            f"alpha={alpha:g}, got {rows}, which only sets of everything would satisfy; use more "
            "rows or a larger alpha"
        )
    return rank


def with_ties(threshold: Tensor, dtype: torch.dtype, unit: float = 0.0) -> Tensor:
    """Return a slightly larger threshold, so that rounding does not separate tied scores.

    The same row may be rounded differently in another batch. A few units in the last place of the
    prediction's type allow for that; sets never get smaller.

    Args:
        threshold: The largest score that is included.
        dtype: The type of the prediction.
        unit: The magnitude that is rounded, if it is larger than the threshold.
    """
    return threshold + 4 * torch.finfo(dtype).eps * threshold.abs().clamp(min=unit)
