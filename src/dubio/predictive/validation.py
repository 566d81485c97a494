"""Validation data: predictions, from `predict` or as plain tensors, and targets that fit them."""

import math

import torch
from torch import Tensor

from dubio.likelihoods import Categorical, HeteroscedasticGaussian, Likelihood
from dubio.likelihoods.discrete import check_probabilities
from dubio.predictive.predictive import Interval, Predictive, StoredDraws

Labels = Predictive | Tensor  # or the probabilities of K classes, (B, ..., K)
NumberPrediction = Predictive | tuple[Tensor, Tensor]  # or mean and standard deviation, both (B, D)


def label_prediction(p: Labels) -> Predictive:
    """Return a prediction of labels; plain probabilities become one of a single draw."""
    if isinstance(p, Tensor):
        if not p.is_floating_point() or p.ndim < 2:
            raise ValueError(
                f"p: expected class probabilities (batch, ..., classes), got {p.dtype} of shape "
                f"{tuple(p.shape)}; one probability of yes becomes torch.stack([1 - p, p], -1)"
            )
        advice = "pass logits.softmax(-1)"
        if p.ndim > 2:
            advice += (
                ", or p.movedim(1, -1) if classes are along dimension 1; predictions with "
                "Categorical(dim=1) are taken as they are"
            )
        check_probabilities(p, -1, "p", advice)
        return Predictive(Categorical(outputs="probabilities"), StoredDraws(p.unsqueeze(0)))
    if not isinstance(p, Predictive):
        raise TypeError(
            f"p: expected a Predictive or a tensor of class probabilities, got "
            f"{type(p).__name__}; call dubio.predict, or torch.as_tensor"
        )
    if not p.likelihood.discrete:
        raise TypeError(
            f"p: expected a prediction of labels, got one by {p.likelihood!r}; predict with "
            "likelihood=Categorical() or Bernoulli()"
        )
    return p


def number_prediction(p: NumberPrediction) -> Predictive:
    """Return a prediction of real targets; a mean and a standard deviation become a Gaussian."""
    if isinstance(p, Interval):
        raise TypeError(
            "p: expected a Predictive or a pair (mean, std), got an Interval; pass the prediction "
            "itself"
        )
    if isinstance(p, tuple):
        mean, std = p
        if mean.shape != std.shape or mean.ndim < 2:
            raise ValueError(
                f"p: expected a mean and a standard deviation, both (batch, outputs), got shapes "
                f"{tuple(mean.shape)} and {tuple(std.shape)}; write mean[:, None] for one output"
            )
        if not bool((std > 0).all() and mean.isfinite().all() and std.isfinite().all()):
            raise ValueError(
                "p: expected finite means and standard deviations > 0, got others; remove the rows"
            )
        outputs = torch.cat([mean, 2 * std.log()], dim=-1)
        return Predictive(HeteroscedasticGaussian(), StoredDraws(outputs.unsqueeze(0)))
    if not isinstance(p, Predictive):
        raise TypeError(
            f"p: expected a Predictive or a pair (mean, std), got {type(p).__name__}; call "
            "dubio.predict"
        )
    if p.likelihood.discrete:
        raise TypeError(
            f"p: expected a prediction of real targets, got one by {p.likelihood!r}; predict with "
            "likelihood=Gaussian(noise_precision)"
        )
    return p


def log_mean(p: Predictive) -> Tensor:
    """Return the logarithm of the averaged probabilities, labels last: `(B, ..., K)`, in float64.

    Logarithms are what is averaged, so that it is exact where a probability underflows.
    """
    blocks = []
    for _, chunks in p.blocks():
        parts = [p.likelihood.log_by_label(outputs).logsumexp(0) for outputs in chunks]
        blocks.append(torch.stack(parts).logsumexp(0))
    logs = torch.cat(blocks) - math.log(p.num_draws)
    if bool(logs.isnan().any()):
        raise ValueError("p: expected probabilities, got NaN; call dubio.predict on finite inputs")
    return logs


def known_rows(p: Predictive, logs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Log probabilities `(N, K)` and labels `(N,)` of all places whose label counts."""
    logs, labels = logs.flatten(0, -2), y.long().reshape(-1).to(logs.device)
    known = p.likelihood.known(labels)
    if known is None:
        return logs, labels
    if not bool(known.any()):
        raise ValueError(
            f"y: expected labels that count, got none; {p.likelihood!r} leaves all out"
        )
    return logs[known], labels[known]


def from_logs(likelihood: Likelihood, logs: Tensor) -> Predictive:
    """Return the prediction of a single draw with these log probabilities, labels last."""
    of_logits, outputs = likelihood.from_log_by_label(logs)
    return Predictive(of_logits, StoredDraws(outputs.unsqueeze(0)))


def likeliest(p: Predictive) -> Tensor:
    """Return the label with the largest averaged probability, `(B, ...)`."""
    return p.likelihood.labels(p.mean).long()


def check_numbers(p: Predictive, y: Tensor) -> Tensor:
    """Return which targets of a prediction are known, `(B, *E)`; check that they fit it."""
    p.likelihood.check_targets(y, p.mean.unsqueeze(0))
    known = p.likelihood.known(y)
    known = torch.ones_like(y, dtype=torch.bool) if known is None else known
    if not bool((y.isfinite() | ~known).all() and p.mean.isfinite().all()):
        raise ValueError("y: expected finite targets and predictions, got others; remove the rows")
    if not bool(known.any()):
        raise ValueError("y: expected targets, got none that is not missing; add some")
    return known
