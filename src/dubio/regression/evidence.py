"""The evidence: how well f and λ0 explain the targets."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import special

from dubio.regression.posterior import DropoutPosterior


@final
@dataclass(frozen=True)
class Evidence:
    """The log marginal likelihood, summed over targets, and its derivatives.

    Attributes:
        log_marginal_likelihood: log p(y | X, f, λ0).
        drop_gradient: Its derivative in f.
        prior_precision_gradient: Its derivative in λ0.
    """

    log_marginal_likelihood: float
    drop_gradient: float
    prior_precision_gradient: float


def log_marginal_likelihood(posterior: DropoutPosterior) -> float:
    """Return the evidence of the model that has Herlau et al. 2022, eq. 14 for its posterior.

    The dropout term of eq. 13 is taken for what it does: it makes the prior of the weights
    N(0, σ²P⁻¹), P = λ0 I + f(1 − f) diag(XᵀX). With weights, intercept and noise integrated out,

        log p(y | X) = −½ log|K| + log Γ(a) − a log(2πb) − [½ log Σs]

    where log|K| = log|Λ| − log|P|, and the last term is the intercept's. The normaliser Z of eq. 9
    is smaller by ½ Σ_d log(P_d/λ0). It would never choose dropout: Z(f, λ0) <= Z(0, λ0/(1 − f)²),
    because (1 − f)w has the same prior on the right, and the dropout term, which is negative, is
    gone.
    """
    posterior.check_noise()
    if posterior.prior.flat:
        raise ValueError(
            "prior_precision: expected > 0 where drop is 0, got 0: a flat prior has no evidence; "
            "set one of the two"
        )
    if not posterior.rate.all():
        raise ValueError(
            "y: expected targets that vary, got a constant, which every prior explains; choose "
            "drop and prior_precision by hand"
        )
    shape = posterior.shape
    intercept = np.log(posterior.count) / 2 if posterior.intercept else 0.0
    constant = special.gammaln(shape) - posterior.factor.log_ratio / 2 - intercept
    return float(np.sum(constant - shape * np.log(2 * np.pi * posterior.rate)))


def gradient(posterior: DropoutPosterior) -> tuple[float, float]:
    """Return the derivatives of the evidence in f and in λ0.

    With γ_d = 1 − P_d (Λ⁻¹)_dd and c = diag(XᵀX) they are, for each target,

        ∂f:   ½ (1 − 2f) Σ c_d γ_d/P_d + Σ γ_d/(1 − f)
              − a/(2b) Σ μ_d² (2P_d/(1 − f) + (1 − 2f) c_d)
        ∂λ0:  ½ Σ γ_d/P_d − a/(2b) Σ μ_d².
    """
    penalty, squares, rate = posterior.penalty, posterior.squares, posterior.rate
    tilt, keep = 1 - 2 * posterior.prior.drop, posterior.prior.keep
    determined = posterior.factor.determined  # (D,)
    growth = determined / penalty
    weights = np.square(posterior.mean) @ (posterior.shape / (2 * rate))  # (D,)
    drop = len(rate) * (tilt / 2 * squares @ growth + determined.sum() / keep)
    drop -= weights @ (2 * penalty / keep + tilt * squares)
    return float(drop), float(len(rate) * growth.sum() / 2 - weights.sum())


def evidence(posterior: DropoutPosterior) -> Evidence:
    """Return the log marginal likelihood with its derivatives."""
    return Evidence(log_marginal_likelihood(posterior), *gradient(posterior))
