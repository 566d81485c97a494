"""Shared code of discrete likelihoods: labels and their probabilities."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from dubio.likelihoods.likelihood import Likelihood, all_true
from dubio.likelihoods.quantiles import empirical_quantile

OutputKind = Literal["logits", "probabilities"]
_ROUNDING = torch.finfo(torch.bfloat16).eps  # of sums; what was bfloat16 once may be float32 now


class Discrete(Likelihood):
    """Labels: the mean is a probability and everything else follows from it."""

    noisy = True
    discrete = True
    outputs: OutputKind

    def __post_init__(self) -> None:
        if self.outputs not in ("logits", "probabilities"):
            raise ValueError(
                f"outputs: expected 'logits' or 'probabilities', got {self.outputs!r}; "
                "say 'probabilities' only if the network itself ends in a softmax or sigmoid"
            )

    def variance(self, outputs: Tensor) -> Tensor:
        """Of the 0/1 indicator of each label: p (1 - p)."""
        p = self.mean(outputs)
        return p * (1 - p)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Return that of every draw."""
        p = self.mean(outputs)
        entropies: Tensor = self.marginal_entropy(p.flatten(0, 1)).unflatten(0, p.shape[:2])
        return entropies

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """Return the quantile of the probabilities over draws, which shows epistemic spread."""
        return empirical_quantile(self.mean(outputs), q)


def check_probabilities(values: Tensor, axis: int, name: str, advice: str) -> None:
    """Raise an error unless these are probabilities of classes along an axis."""
    sums = values.float().sum(axis)
    if not all_true((values >= 0).all() & ((sums - 1).abs() <= _ROUNDING).all()):
        check_nan(values, name)
        raise ValueError(
            f"{name}: expected probabilities >= 0 that sum to 1 over the classes, got values from "
            f"{float(values.min()):.4g} and sums in [{float(sums.min()):.4g}, "
            f"{float(sums.max()):.4g}]; {advice}"
        )


def check_nan(values: Tensor, name: str) -> None:
    """Raise an error for NaN among probabilities."""
    count = int(values.isnan().sum())
    if count:
        raise ValueError(
            f"{name}: expected probabilities, got NaN in {count} of {values.numel()} entries; find "
            "out where they come from, or remove these rows"
        )


def as_weights(given: Sequence[float] | Tensor | float, name: str) -> tuple[float, ...]:
    """Return weights as numbers, so that likelihoods can be compared."""
    numbers = given.tolist() if isinstance(given, Tensor) else given
    try:
        found = tuple(map(float, numbers if isinstance(numbers, Sequence) else [numbers]))
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: expected numbers, one after the other, got {given!r}; pass a list or a tensor"
        ) from None
    if not found or not all(0 <= weight < math.inf for weight in found) or sum(found) == 0:
        raise ValueError(
            f"{name}: expected finite numbers >= 0 that are not all 0, got {given!r}; shares of "
            "labels become weights by 1 / share"
        )
    return found
