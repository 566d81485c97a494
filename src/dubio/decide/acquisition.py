"""Active learning: which rows of a pool to label next."""

import math
from operator import index
from typing import Literal, SupportsIndex, get_args

import torch
from torch import Tensor

from dubio.predictive.predictive import Predictive
from dubio.predictive.validation import label_prediction

Acquisition = Literal["bald", "batchbald", "entropy", "variation"]
"""Names of what `acquire` goes by."""
ACQUISITIONS: tuple[Acquisition, ...] = get_args(Acquisition)
MOST_CONFIGURATIONS = 1024  # of the labels of chosen rows; more are sampled


def acquire(
    p: Predictive,
    n: int,
    by: Acquisition = "bald",
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Choose the rows of a pool whose labels would be most informative.

    - `entropy`: H[y | x], of the averaged probabilities.
    - `bald`: I[y, ω | x], the disagreement among draws (Houlsby et al. 2011).
    - `variation`: 1 − max_k p(y = k | x), the variation ratio of labels drawn from the prediction
      (Gal, Islam and Ghahramani 2017, section 4).
    - `batchbald`: I[y_1…y_n, ω | x_1…x_n], greedily, so that redundant rows count once (Kirsch, van
      Amersfoort and Gal 2019, algorithm 1).

    The first three take the n rows with the largest values. `batchbald` needs a joint entropy, a
    sum over all Kⁿ⁻¹ configurations of labels of the rows chosen so far. It is exact up to 1024
    configurations; beyond, it is an average over 1024 configurations drawn from the prediction
    (section 3.2 of that paper).

    Args:
        p: The prediction of the pool, with one label per row and at least 2 draws (except for
            `entropy` and `variation`). `batchbald` needs stored draws that are each one function:
            `predict(net, pool, shared=True, keep_draws=True)`.
        n: Number of rows to choose.
        by: The acquisition function.
        generator: Breaks ties and draws configurations; by default seeded with 0.

    Returns:
        Indices of different rows, best first, `(n,)`.
    """
    if by not in ACQUISITIONS:
        raise ValueError(f"by: expected one of {', '.join(ACQUISITIONS)}, got {by!r}")
    if not isinstance(p, Predictive):
        raise TypeError(
            f"p: expected a Predictive, which has draws, got {type(p).__name__}; call dubio.predict"
        )
    p = label_prediction(p)
    rows = p.source.num_rows
    if isinstance(n, bool) or not isinstance(n, SupportsIndex) or not 1 <= index(n) <= rows:
        raise ValueError(f"n: expected a whole number from 1 to {rows}, the rows of p, got {n!r}")
    if by in ("bald", "batchbald") and p.num_draws == 1:
        raise ValueError(
            f"p: expected at least 2 draws for {by!r}, got 1, which agrees with itself; predict "
            "with draws=50, or use 'entropy'"
        )
    probabilities = p.likelihood.by_label(p.mean)  # (B, ..., K)
    if probabilities.ndim > 2:
        if probabilities[0].numel() != probabilities.shape[-1]:
            raise ValueError(
                f"p: expected one label a row, got {tuple(probabilities.shape[1:-1])}; a row is "
                "labelled as a whole: predict one label of it"
            )
        probabilities = probabilities.reshape(rows, -1)
    broken = int((~probabilities.isfinite().all(-1)).sum())
    if broken:
        raise ValueError(
            f"p: expected probabilities, got NaN in {broken} of {rows} rows; leave these rows out "
            "of the pool"
        )
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    match by:
        case "bald":
            return _largest(p.mutual_information.reshape(rows), n, generator)
        case "entropy":
            return _largest(p.entropy.reshape(rows), n, generator)
        case "variation":
            return _largest(1 - probabilities.amax(-1), n, generator)
        case "batchbald":
            logs = p.likelihood.log_by_label(p.draws).reshape(p.num_draws, rows, -1)
            return _greedy(logs.exp(), n, generator).to(p.mean.device)


def _largest(values: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Return the places of the n largest values, ties in random order."""
    order = torch.randperm(len(values), generator=generator, device=generator.device)
    order = order.to(values.device)
    return order[values[order].argsort(descending=True, stable=True)[:n]]


def _greedy(q: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Return one row after the other, each with the largest joint information with those before.

    I[y_1…y_m, ω] = H[y_1…y_m] − Σ_i E_ω H[y_i | ω], as labels are independent given the network.

    Args:
        q: Probabilities of every draw, `(S, B, K)`.
        n: How many rows.
        generator: As for `acquire`.
    """
    given = torch.special.entr(q).sum(-1).mean(0)  # (B,): E_ω H[y | ω]
    configurations = q.new_ones(1, len(q))  # (C, S): p(labels of chosen rows | ω)
    weights = q.new_ones(1)  # (C,): 1, or 1/(C p(labels)) if they were drawn
    chosen: list[int] = []
    while True:
        gain = _joint_entropy(configurations, weights, q) - given  # the rest is the same for all
        gain[chosen] = -math.inf
        best = gain >= gain.max() - 1e-12  # rounding does not choose
        chosen.append(int(_largest(best.float(), 1, generator)))
        if len(chosen) == n:
            return torch.tensor(chosen, device=q.device)
        if len(configurations) * q.shape[-1] <= MOST_CONFIGURATIONS and weights.eq(1).all():
            new = q[:, chosen[-1]].T  # (K, S)
            configurations = (configurations[:, None] * new).flatten(0, 1)
            weights = weights.repeat_interleave(len(new))
        else:
            configurations = _drawn(q[:, chosen], generator)
            weights = 1 / (len(configurations) * configurations.mean(-1))


def _joint_entropy(configurations: Tensor, weights: Tensor, q: Tensor) -> Tensor:  # (B,)
    """H of the labels of chosen rows and of one row more, for every row.

    −Σ_c w_c Σ_k p(c, k) log p(c, k), where p(c, k) is the mean over draws of p(c | ω) p(k | ω).
    """
    total = q.new_zeros(q.shape[1])
    for label in range(q.shape[-1]):
        joint = configurations @ q[..., label] / len(q)  # (C, B)
        total += weights @ torch.special.entr(joint)
    return total


def _drawn(q: Tensor, generator: torch.Generator) -> Tensor:  # (S, m, K) -> (C, S)
    """Return p(labels | ω) of labels that are drawn from the prediction: each of a random draw."""
    draws, places, _ = q.shape
    device = generator.device
    picks = torch.randint(draws, (MOST_CONFIGURATIONS,), generator=generator, device=device)
    of_picks = q.to(device)[picks].flatten(0, 1)  # (C · m, K)
    labels = of_picks.multinomial(1, generator=generator).reshape(-1, places).to(q.device)
    found = q.new_ones(len(labels), draws)
    for place in range(places):
        found *= q[:, place, labels[:, place]].T
    return found
