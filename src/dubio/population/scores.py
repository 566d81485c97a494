"""How well members predict: log predictive densities and errors, over any number of draws."""

import math
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dubio.objectives.elbo import ELBO
from dubio.population.prediction import MemberDraws
from dubio.population.stack import Stack


class Scores(NamedTuple):
    """Predictive scores of each member on its rows.

    Attributes:
        log_prob: Mean log predictive density of the targets.  # (M,)
        rmse: Root mean squared error of the predictive mean; NaN where targets are labels.  # (M,)
    """

    log_prob: Tensor
    rmse: Tensor


def score(
    stack: Stack,
    seeds: Sequence[tuple[int, ...]],
    x: Tensor,
    y: Tensor,
    rows: list[np.ndarray[Any, Any]],
    draws: int,
    *,
    shared: bool,
) -> Scores:
    """Predict the rows of each member, and compare with their targets."""
    scores = Scores(torch.full((len(stack),), torch.nan), torch.full((len(stack),), torch.nan))

    def summarise(elbo: ELBO, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        likelihood = elbo.likelihood
        return likelihood.log_prob(outputs, y).logsumexp(0), likelihood.mean(outputs).sum(0)

    for group, own in by_length(rows, x.device):
        part = stack.take(group)
        member_draws = MemberDraws(part, shared=shared)
        own_seeds = [seeds[m] for m in group.tolist()]
        for members, pieces in groupby(
            member_draws.pieces(x, own, own_seeds, draws, summarise, y), key=attrgetter("members")
        ):
            done, logs, means = 0, torch.tensor(-math.inf), torch.tensor(0.0)
            for _, count, (log, mean) in pieces:
                done += count
                logs = torch.logaddexp(logs.to(log), log)  # (G, B)
                means = means.to(mean) + mean  # (G, B, *E)
            scores.log_prob[group[members]] = (logs - math.log(done)).mean(1).to(scores.log_prob)
            targets = y[own[members]]
            if means.shape == targets.shape:
                errors = (means / done - targets).square().flatten(1).mean(1).sqrt()
                scores.rmse[group[members]] = errors.to(scores.rmse)
    return scores


def by_length(
    rows: list[np.ndarray[Any, Any]], device: torch.device
) -> list[tuple[Tensor, Tensor]]:
    """Return groups of members with equally many rows, and their rows: (G,) and (G, B)."""
    groups: dict[int, list[int]] = {}
    for member, own in enumerate(rows):
        groups.setdefault(len(own), []).append(member)
    return [
        (torch.tensor(group), torch.from_numpy(np.stack([rows[m] for m in group])).to(device))
        for group in groups.values()
    ]
