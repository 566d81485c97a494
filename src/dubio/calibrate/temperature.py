"""Temperature scaling: one number that calibrates averaged probabilities."""

import math
from itertools import count
from typing import Self, final

from torch import Tensor

from dubio.predictive.fitted import Fitted
from dubio.predictive.predictive import Predictive
from dubio.predictive.validation import Labels, from_logs, known_rows, label_prediction, log_mean

WIDEST = 2.0**40  # of β = 1/T: what lies beyond has no optimum worth the name
TOLERANCE = 1e-12  # of β, relative
NEWTON_STEPS = 50  # bisection alone goes on from there, in case rounding keeps Newton from an end


@final
class TemperatureScaling(Fitted):
    """Temperature scaling of the averaged probabilities (Guo et al. 2017).

        q_T(k | x) ∝ q(k | x)^(1/T),  q(k | x) = 1/S Σ_t p(k | x, ω_t)

    T is the exact minimum of the negative log-likelihood on validation data. In β = 1/T this is
    convex: Σ_i log Σ_k exp(β l_ik) − β l_iy with l = log q has the slope Σ_i E_β[l_i] − l_iy and
    the curvature Σ_i Var_β[l_i] ≥ 0. The order of the classes, and so the accuracy, does not
    change.

    The mean is scaled, not each draw: the mean is what is scored; draws that are calibrated one by
    one have an underconfident mean (Rahaman and Thiery 2021); and the likelihood of scaled draws is
    not convex in β.

    The result is one distribution per row: a `Predictive` of a single draw. Its entropy, log
    probability and samples are calibrated. The disagreement among draws is lost: take
    `mutual_information` and `epistemic` from the original prediction.

    Attributes:
        temperature: T, a buffer; above 1 the prediction was overconfident.
    """

    temperature: Tensor
    _values = ("temperature",)

    def fit(self, p: Labels, y: Tensor) -> Self:
        """Set T to its optimum on validation data.

        Args:
            p: A `Categorical` or `Bernoulli` prediction, or class probabilities `(B, ..., K)`. All
                pixels or questions count equally.
            y: Labels, as `Predictive.log_prob` takes them.

        Returns:
            The fitted scaling itself.
        """
        p = label_prediction(p)
        p.check_targets(y)
        logs, labels = known_rows(p, log_mean(p), y)  # (N, K), (N,)
        self._keep("temperature", 1 / _optimum(logs, labels))
        self._keep_sizes(p)
        return self

    def forward(self, p: Labels) -> Predictive:
        """Return the prediction with calibrated probabilities."""
        p = label_prediction(p)
        temperature = self._known("temperature")
        self._check_sizes(p)
        logs = log_mean(p)
        logs = (logs / temperature.to(logs.device)).log_softmax(-1)
        return from_logs(p.likelihood, logs.to(p.mean))


def _optimum(logs: Tensor, labels: Tensor) -> Tensor:
    """Minimise Σ_i log Σ_k exp(β l_ik) − β l_iy over β, by Newton steps in a bracket."""
    chosen = logs.gather(-1, labels.unsqueeze(-1)).squeeze(-1)  # (N,)
    possible = logs.isfinite()
    finite = logs.where(possible, 0)
    if bool((chosen == -math.inf).any()):
        raise ValueError(
            "y: expected labels that the prediction holds possible, got some of probability 0; "
            "predict logits, whose probabilities are never 0"
        )
    if bool((chosen == logs.amax(-1)).all()):
        raise ValueError(
            "y: expected at least one label that is not the likeliest, got none, so that the "
            "likelihood grows as T → 0; use more validation data"
        )
    if float((finite.sum(-1) / possible.sum(-1) - chosen).sum()) >= 0:
        raise ValueError(
            "y: expected labels that are likelier than chance, got others, so that the likelihood "
            "grows as T → ∞; check that labels and classes have the same order"
        )

    def slope_and_curvature(beta: Tensor) -> tuple[Tensor, Tensor]:
        weights = (beta * logs).softmax(-1)
        mean = (weights * finite).sum(-1)  # (N,)
        spread = weights * (finite - mean.unsqueeze(-1)).square()
        return (mean - chosen).sum(), spread.sum()

    beta = logs.new_tensor(1.0)
    low, high = beta / WIDEST, beta * WIDEST
    for steps in count():
        slope, curvature = slope_and_curvature(beta)
        low, high = (beta, high) if slope < 0 else (low, beta)
        newton = beta - slope / curvature
        inside = bool((low <= newton) & (newton <= high)) and steps < NEWTON_STEPS
        after = newton if inside else (low * high).sqrt()  # bisection of log β
        if bool((after - beta).abs() <= TOLERANCE * beta):
            break
        beta = after
    return after
