"""The n best items of every user, ties by item number."""

import torch
from torch import Tensor


def best(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n highest scores of each row and where they are; of equal ones the first items.

    Args:
        scores: (B, I). Items that cannot be recommended have −∞.
        n: At least 1.

    Returns:
        Scores in falling order and items, (B, min(n, I)) each. What is not to be had is −∞, of
        whatever item.
    """
    n = min(n, scores.shape[1])
    values, ids = scores.topk(min(n + 1, scores.shape[1]))  # one more shows ties at the end
    if values.isnan().any():
        raise ValueError(
            "scores: expected numbers, got NaN; the weights are probably not finite: fit with a "
            "lower learning rate"
        )
    last = values[:, n - 1]
    tied = (values[:, -1] == last) & last.isfinite() if values.shape[1] > n else last != last
    values, ids = values[:, :n], ids[:, :n]
    if tied.any():
        values, ids = values.clone(), ids.clone()
        ids[tied] = _first_of_equal(scores[tied], last[tied], n)
        values[tied] = scores[tied].gather(1, ids[tied])
    ids, order = ids.sort(1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, ids.gather(1, order)


def _first_of_equal(scores: Tensor, last: Tensor, n: int) -> Tensor:
    """For each row n items: all above the last score, and the first of those equal to it."""
    above = scores > last[:, None]  # (B, I)
    equal = scores == last[:, None]
    taken = equal & (equal.cumsum(1) <= n - above.sum(1, keepdim=True))
    return torch.nonzero(above | taken)[:, 1].view(len(scores), n)
