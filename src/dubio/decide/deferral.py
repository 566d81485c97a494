"""Deferral: the network answers where it may, and asks a human elsewhere."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from dubio.decide.binomial import log_cdf, upper_bound
from dubio.decide.fixed_sequence import fewest_rows, loosest_threshold
from dubio.decide.scores import SCORES, Score, row_scores
from dubio.likelihoods.quantiles import check_probability
from dubio.noise.float64 import in_float64
from dubio.predictive.fitted import Fitted
from dubio.predictive.predictive import Predictive
from dubio.predictive.validation import (
    Labels,
    NumberPrediction,
    label_prediction,
    likeliest,
    number_prediction,
)


@final
@dataclass(frozen=True)
class Decision:
    """Which rows are answered, and the answers.

    Attributes:
        answered: Whether the network answers, `(B,)`; the others go to a human.
        answer: The likeliest label, `(B,)`, or the mean, `(B, *E)`; -1 or NaN where deferred.
        scores: Uncertainty score of each row, `(B,)`.
    """

    answered: Tensor
    answer: Tensor
    scores: Tensor

    @property
    def coverage(self) -> float:
        """The share of rows that are answered."""
        return float(in_float64(self.answered).mean())


@final
class Deferral(Fitted):
    """Selective prediction: answers rows whose score is below a threshold from validation data.

    Both targets come with a guarantee for rows that are drawn like the validation rows,
    independently from one distribution, whatever the network, the score and the distribution are.
    It holds with probability `confidence` = 1 − δ over the validation rows.

    *Error rate.* P(wrong | answered) ≤ r. Thresholds are tested from the strictest on, the one that
    answers a quarter of the rows, each at level δ, until one cannot be shown to keep r; the
    previous one is taken (fixed-sequence testing, Bauer 1991, Angelopoulos et al. 2021;
    `loosest_threshold` explains why this holds for thresholds that are scores of the same rows).
    With several scores to choose from, each gets an equal share of δ. Geifman and El-Yaniv (2017)
    instead search thresholds by bisection, in an order that depends on the labels.

    *Coverage.* P(answered) ≥ c. The threshold is the k-th smallest score, with the smallest k for
    which P(Bin(n, c) ≥ k) ≤ δ: the coverage of that threshold follows Beta(k, n + 1 − k), or more
    if scores tie (Vovk 2012). The conformal rank ⌈(n + 1)c⌉ would hold only on average over
    validation sets, that is, fail for about half of them.

    If no threshold reaches the target, an error is raised. Rows whose prediction is NaN or infinite
    are deferred, also among the validation rows.

    Args:
        scores: A score, or several to choose from: the one with the largest coverage for a wanted
            error rate, or the one with the fewest errors for a wanted coverage.
        confidence: 1 − δ.
        tolerance: For real targets: an answer with a larger error in any element is wrong.

    Attributes:
        threshold: Rows with a smaller score are answered, a buffer.
        error_bound: The guaranteed error rate of answered rows, a buffer; NaN if fitted for
            coverage.
    """

    threshold: Tensor
    error_bound: Tensor
    choice: Tensor  # an index of SCORES
    _values = ("threshold", "error_bound")
    _fitted_by = "fit_error_rate or fit_coverage"

    def __init__(
        self,
        scores: Score | Sequence[Score] = "entropy",
        *,
        confidence: float = 0.95,
        tolerance: float | None = None,
    ) -> None:
        super().__init__()
        self.candidates: tuple[Score, ...] = (scores,) if isinstance(scores, str) else tuple(scores)
        if not self.candidates or not set(self.candidates) <= set(SCORES):
            raise ValueError(f"scores: expected some of {SCORES}, got {scores!r}; choose of those")
        check_probability("confidence", confidence, "0.95 is one")
        if tolerance is not None and not tolerance >= 0:
            raise ValueError(
                f"tolerance: expected >= 0, got {tolerance}; pass the largest error of a right "
                "answer"
            )
        self.confidence = confidence
        self.tolerance = tolerance
        self.register_buffer("choice", torch.tensor(SCORES.index(self.candidates[0])))

    @property
    def score(self) -> Score:
        """The score that decides."""
        return SCORES[int(self.choice)]

    def fit_error_rate(self, p: Labels | NumberPrediction, y: Tensor, error_rate: float) -> Self:
        """Fit the threshold with the largest coverage for a wanted error rate.

        Args:
            p: A prediction of one label per row or of real targets; or class probabilities `(B,
                K)`; or mean and standard deviation, `(B, D)` each.
            y: Its targets.
            error_rate: The largest allowed probability that an answered row is wrong.

        Returns:
            The fitted deferral itself.
        """
        check_probability("error_rate", error_rate, "0.05 is one")
        p, broken = _prediction(p)
        wrong = self._wrong(p, y)
        level = (1 - self.confidence) / len(self.candidates)
        least = fewest_rows(error_rate, level)
        tested = []
        for score in self.candidates:
            values = _for_fit(row_scores(p, score), broken)
            known = int(values.isfinite().sum())
            if known < least:
                raise ValueError(
                    f"error_rate: expected at least {least} validation rows for {error_rate} at a "
                    f"confidence of {self.confidence}, got {known} with finite scores; use more "
                    "rows, a larger rate or a lower confidence"
                )
            tested.append((loosest_threshold(values, wrong, error_rate, level), score))
        passed = [(one, score) for one, score in tested if one.threshold > -math.inf]
        if not passed:
            bounds = [upper_bound(one.errors, one.rows, level) for one, _ in tested]
            bound, (one, score) = min(zip(bounds, tested, strict=True), key=lambda pair: pair[0])
            raise ValueError(
                f"error_rate: expected one that a threshold attains, got {error_rate}; the nearest "
                f"bound is {bound:.3g}, by {score} at a coverage of "
                f"{one.rows / len(wrong):.3g}: use more rows, a larger rate, a lower confidence or "
                "another score"
            )
        best, score = max(passed, key=lambda pair: pair[0].rows)
        self._set(score, best.threshold, error_rate)
        self._keep_sizes(p)
        return self

    def fit_coverage(
        self, p: Labels | NumberPrediction, coverage: float, y: Tensor | None = None
    ) -> Self:
        """Fit the threshold that answers at least a wanted share of rows.

        Args:
            p: A prediction, as for `fit_error_rate`.
            coverage: The smallest allowed probability that a row is answered.
            y: Its targets, needed to choose among several scores.

        Returns:
            The fitted deferral itself.
        """
        check_probability("coverage", coverage, "0.9 is one")
        p, broken = _prediction(p)
        rows = len(p.mean)
        level = (1 - self.confidence) / len(self.candidates)
        # P(Bin(n, c) ≥ n − j) = P(Bin(n, 1 − c) ≤ j): j rows may be deferred
        spare = int((log_cdf(rows, rows, 1 - coverage) <= math.log(level)).sum()) - 1
        if spare < 0:
            least = math.ceil(math.log(level) / math.log(coverage))
            raise ValueError(
                f"coverage: expected at least {least} validation rows for {coverage} at a "
                f"confidence of {self.confidence}, got {rows}; use more rows, a smaller coverage "
                "or a lower confidence"
            )
        if y is None and len(self.candidates) > 1:
            raise ValueError(
                f"y: expected targets to choose among {self.candidates}, got None; pass y or one "
                "score"
            )
        wrong = None if y is None else self._wrong(p, y)
        options = []  # share of errors, threshold, score
        for score in self.candidates:
            values = _for_fit(row_scores(p, score), broken)
            last = values.sort().values[rows - spare - 1]
            if bool(last.isinf()):
                raise ValueError(
                    f"coverage: expected at least {rows - spare} finite scores for {coverage} at a "
                    f"confidence of {self.confidence}, got {int(values.isfinite().sum())}, as rows "
                    "that are NaN or infinite are deferred; find out why they are, or ask for less"
                )
            certain = (values <= last).to(p.mean.device)
            errors = 0.0 if wrong is None else float(in_float64(wrong[certain]).mean())
            options.append((errors, float(last.nextafter(last.new_tensor(math.inf))), score))
        _, threshold, score = min(options, key=lambda option: option[0])
        self._set(score, threshold, math.nan)
        self._keep_sizes(p)
        return self

    def forward(self, p: Labels | NumberPrediction) -> Decision:
        """Answer or defer new rows; rows that are NaN or infinite are deferred."""
        p, broken = _prediction(p)
        threshold = self._known("threshold")
        self._check_sizes(p)
        scores = row_scores(p, self.score)
        scores = scores.where(~broken.to(scores.device), math.nan)
        answered = (scores < threshold.to(scores.device)).to(p.mean.device)
        if p.likelihood.discrete:
            return Decision(answered, likeliest(p).reshape(-1).where(answered, -1), scores)
        shape = (-1, *[1] * (p.mean.ndim - 1))
        return Decision(answered, p.mean.where(answered.reshape(shape), math.nan), scores)

    def extra_repr(self) -> str:
        """Return the settings that `nn.Module` prints."""
        return f"{self.score}, confidence={self.confidence:g}, threshold={float(self.threshold):g}"

    def _wrong(self, p: Predictive, y: Tensor) -> Tensor:
        """Return whether the answer of each row would be wrong, `(B,)`."""
        if p.likelihood.discrete:
            p.check_targets(y)
            known = p.likelihood.known(y)
            if known is not None and not bool(known.all()):
                raise ValueError(
                    f"y: expected a label for every row, got {int((~known).sum())} that do not "
                    "count; predict and fit without these rows"
                )
            return (y != likeliest(p)).reshape(-1)
        p.likelihood.check_targets(y, p.mean.unsqueeze(0))
        if not bool(y.isfinite().all()):
            raise ValueError(
                "y: expected finite targets, got others; predict and fit without the rows that "
                "have them, missing ones too"
            )
        if self.tolerance is None:
            raise ValueError(
                "tolerance: expected one for real targets, got None; say up to which error an "
                "answer is right: Deferral('std', tolerance=...)"
            )
        errors = (in_float64(y) - in_float64(p.mean)).abs().reshape(len(y), -1)
        return (errors > self.tolerance).any(-1)

    def _set(self, score: Score, threshold: float, bound: float) -> None:
        self._keep("choice", torch.tensor(SCORES.index(score)))
        self._keep("threshold", torch.tensor(threshold, dtype=torch.float64))
        self._keep("error_bound", torch.tensor(bound, dtype=torch.float64))


def _prediction(p: Labels | NumberPrediction) -> tuple[Predictive, Tensor]:
    """Return the prediction, and which of its rows `(B,)` are NaN or infinite.

    Of plain tensors these rows become any others: they are not looked at.
    """
    broken: Tensor | None = None
    if isinstance(p, Tensor) and p.is_floating_point() and p.ndim > 1:
        broken = _broken(p)
        p = _with(p, broken, 1 / p.shape[-1])
    elif isinstance(p, tuple) and all(part.ndim > 1 for part in p) and p[0].shape == p[1].shape:
        broken = _broken(p[0]) | _broken(p[1])
        p = (_with(p[0], broken, 0.0), _with(p[1], broken, 1.0))
    numbers = isinstance(p, tuple) or (isinstance(p, Predictive) and not p.likelihood.discrete)
    found = number_prediction(p) if numbers else label_prediction(p)  # type: ignore[arg-type]
    return found, _broken(found.mean) if broken is None else broken


def _broken(values: Tensor) -> Tensor:
    """Return rows `(B,)` with a number that is not finite."""
    return ~values.isfinite().flatten(1).all(1) if values.ndim > 1 else ~values.isfinite()


def _with(values: Tensor, rows: Tensor, value: float) -> Tensor:
    """Other values in some rows."""
    return values.where(~rows.reshape(-1, *[1] * (values.ndim - 1)), value)


def _for_fit(scores: Tensor, broken: Tensor) -> Tensor:
    """Return scores, infinite where the prediction is not finite."""
    scores = scores.where(~broken.to(scores.device) & ~scores.isnan(), math.inf)
    if bool(scores.isinf().all()):
        raise ValueError(
            "p: expected finite scores and probabilities, got NaN or infinite ones in all rows; "
            "find out where they come from"
        )
    return scores
