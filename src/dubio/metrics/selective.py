"""Selective prediction: the error if the most uncertain cases are left out."""

import math
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from dubio.metrics.reading import Classifiable, check_numbers, check_shape, read_classified
from dubio.metrics.states import KeptCases, check_counted
from dubio.metrics.ties import sort_with_ties
from dubio.noise.float64 import in_float64


class RiskCoverageCurve(NamedTuple):
    """The mean loss of the k most certain of N cases, k = 1 … N: each `(N,)`."""

    coverage: Tensor
    risk: Tensor
    threshold: Tensor

    @property
    def aurc(self) -> Tensor:
        """The area under the curve: the mean risk over the N coverages; smaller is better."""
        return self.risk.mean()

    def accuracy_at(self, coverage: float) -> Tensor:
        """Return 1 - the risk of the smallest selection with at least this coverage."""
        if not 0 < coverage <= 1:
            raise ValueError(f"coverage: expected a share in (0, 1], got {coverage}; 0.9, say")
        risk = self.risk.reshape(-1)
        return 1 - risk[max(0, math.ceil(coverage * len(risk) - 1e-9) - 1)]


def risk_coverage(
    prediction: Classifiable,
    target: Tensor,
    *,
    uncertainty: Tensor | None = None,
    void: int | None = None,
) -> RiskCoverageCurve:
    """Return the curve of classification errors over coverage.

    El-Yaniv and Wiener 2010; Geifman and El-Yaniv 2017. Cases with the largest `uncertainty` are
    left out first.
    """
    return _curve(*_errors(prediction, target, uncertainty, void))


def risk_coverage_of(uncertainty: Tensor, loss: Tensor) -> RiskCoverageCurve:
    """Return the risk-coverage curve of any loss, such as squared errors.

    Ties: where a selection ends among equal uncertainties, each of them counts with their mean
    loss. That is the expectation over all ways to choose among them, so the order of rows does not
    matter. Both arguments may have any shape, the same.
    """
    doubt = check_numbers(uncertainty, "uncertainty").double()
    check_shape(loss, doubt.shape, "loss", "the uncertainties")
    check_numbers(in_float64(loss), "loss")
    return _curve(doubt.flatten(), loss.flatten())


def aurc(
    prediction: Classifiable,
    target: Tensor,
    *,
    uncertainty: Tensor | None = None,
    void: int | None = None,
) -> Tensor:
    """Return the area under `risk_coverage`, with the same arguments."""
    return risk_coverage(prediction, target, uncertainty=uncertainty, void=void).aurc


def accuracy_at_coverage(
    prediction: Classifiable,
    target: Tensor,
    coverage: float,
    *,
    uncertainty: Tensor | None = None,
    void: int | None = None,
) -> Tensor:
    """Return the accuracy of the most certain cases, at least this share of all."""
    curve = risk_coverage(prediction, target, uncertainty=uncertainty, void=void)
    return curve.accuracy_at(coverage)


class _Selective(KeptCases):
    """Keeps 16 bytes for every case: the curve needs all of them in order."""

    def __init__(self, *, void: int | None = None, **kwargs: Any) -> None:
        super().__init__("doubts", "losses", **kwargs)
        self.void = void

    def update(
        self, prediction: Classifiable, target: Tensor, uncertainty: Tensor | None = None
    ) -> None:
        """Add a batch."""
        doubts, losses = _errors(prediction, target, uncertainty, self.void)
        self.keep(doubts=doubts, losses=losses)

    def curve(self) -> RiskCoverageCurve:
        """Return the curve so far."""
        return _curve(self.kept("doubts"), self.kept("losses"))


@final
class RiskCoverage(_Selective):
    """`risk_coverage` over batches and processes."""

    def compute(self) -> RiskCoverageCurve:
        """Return the curve."""
        return self.curve()


@final
class AURC(_Selective):
    """`aurc` over batches and processes."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """Return the area."""
        return self.curve().aurc


@final
class AccuracyAtCoverage(_Selective):
    """`accuracy_at_coverage` over batches and processes."""

    higher_is_better = True

    def __init__(self, coverage: float, *, void: int | None = None, **kwargs: Any) -> None:
        super().__init__(void=void, **kwargs)
        self.coverage = coverage

    def compute(self) -> Tensor:
        """Return the accuracy."""
        return self.curve().accuracy_at(self.coverage)


def _errors(
    prediction: Classifiable, target: Tensor, uncertainty: Tensor | None, void: int | None
) -> tuple[Tensor, Tensor]:
    seen = read_classified(prediction, target, void)
    return seen.doubt(uncertainty)[seen.known], (~seen.accurate[seen.known]).double()


def _curve(doubt: Tensor, loss: Tensor) -> RiskCoverageCurve:
    check_counted(len(doubt), "risk_coverage")
    threshold, losses = sort_with_ties(doubt.double(), loss)
    k = torch.arange(1, len(losses) + 1, dtype=torch.float64, device=losses.device)
    return RiskCoverageCurve(k / len(losses), losses.cumsum(0) / k, threshold)
