"""Uncertainty scores: one number per row."""

from typing import Literal

from torch import Tensor

from dubio.noise.float64 import in_float64
from dubio.predictive.predictive import Predictive

Score = Literal["entropy", "mutual_information", "variation_ratio", "std"]
SCORES: tuple[Score, ...] = ("entropy", "mutual_information", "variation_ratio", "std")


def row_scores(p: Predictive, score: Score) -> Tensor:
    """Return the score of every row, `(B,)`, in float64.

    `std` is the root of the predictive variance, summed over the elements of a target; of labels
    that is √(1 − Σ_k q_k²).
    """
    if score in ("mutual_information", "variation_ratio") and p.num_draws == 1:
        raise ValueError(
            f"score: expected at least 2 draws for {score!r}, got 1, which agrees with itself; "
            "pass the prediction as predict gave it, before any scaling, or use 'entropy'"
        )
    match score:
        case "entropy":
            values = p.entropy
        case "mutual_information":
            values = p.mutual_information
        case "variation_ratio":
            values = p.variation_ratio
        case "std":
            values = p.variance.reshape(len(p.mean), -1).sum(-1).sqrt()
    if values.numel() != len(values):
        raise ValueError(
            f"p: expected one label a row, got scores {tuple(values.shape)}; a row is answered or "
            "deferred as a whole: predict one label of it"
        )
    return in_float64(values.reshape(-1))
