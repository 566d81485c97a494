"""The evidence: how well f and λ0 explain the targets, and which explain them best."""

from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
from scipy import optimize, special

from dubio.progress import Progress
from dubio.regression.design import Design
from dubio.regression.posterior import Posterior
from dubio.regression.prior import Array, Prior
from dubio.regression.solver import Solver

_DROPS = (0.0, 0.02, 0.2, 0.7)  # where to look first
_PRECISIONS = (1e-6, 1e-3, 1e-2, 0.1, 1.0, 10.0)  # in units of the mean square sum of a feature
_NARROWEST, _WIDEST = 1e-8, 1e8  # bounds of the precision, in the same units
_LEAST_KEEP = 1e-6


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


def log_marginal_likelihood(posterior: Posterior) -> float:
    """The evidence of the model that has eq. 14 of paper 003 for its posterior.

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


def gradient(posterior: Posterior) -> tuple[float, float]:
    """The derivatives of the evidence in f and in λ0.

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


def evidence(posterior: Posterior) -> Evidence:
    """The log marginal likelihood with its derivatives."""
    return Evidence(log_marginal_likelihood(posterior), *gradient(posterior))


def maximise(design: Design, y: Array, drop: float | None, precision: float | None) -> Prior:
    """The prior of the largest evidence; what is given stays, what is None is free.

    The evidence often has two hills: one at f = 0, where all weights are of one size, and one at
    small λ0, where all features contribute alike. A coarse grid finds a start on each.
    """
    unit = float(design.squares.mean()) or 1.0
    exact = Solver("cholesky")
    least_drop = _LEAST_KEEP if precision == 0 else 0.0
    drops = [max(rate, least_drop) for rate in _DROPS] if drop is None else [drop]
    precisions = [unit * value for value in _PRECISIONS] if precision is None else [precision]
    bounds = [(least_drop, 1 - _LEAST_KEEP), (np.log(unit * _NARROWEST), np.log(unit * _WIDEST))]
    free = [i for i, fixed in enumerate((drop, precision)) if fixed is None]

    with Progress("evidence", None) as progress:

        def posterior_of(prior: Prior) -> Posterior:
            progress.advance()
            return Posterior(design, y, prior, exact)

        def prior_at(point: Array) -> Prior:  # the free ones of (f, log λ0)
            rate = float(point[0]) if drop is None else drop
            return Prior(rate, float(np.exp(point[-1])) if precision is None else precision)

        def loss(point: Array) -> tuple[float, Array]:
            posterior = posterior_of(prior_at(point))
            slope = np.multiply(gradient(posterior), (1, posterior.prior.precision))
            return -log_marginal_likelihood(posterior), -slope[free]

        def climb(prior: Prior) -> tuple[float, Prior]:
            with np.errstate(divide="ignore"):
                start = np.array([prior.drop, np.log(prior.precision)])[free]
            found = optimize.minimize(
                loss,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=[bounds[i] for i in free],
                options={"ftol": 1e-12},
            )
            return -found.fun, prior_at(found.x)

        heights = {
            prior: log_marginal_likelihood(posterior_of(prior))
            for prior in (Prior(*pair) for pair in product(drops, precisions))
        }
        hills = [[p for p in heights if (p.drop == drops[0]) == ridge] for ridge in (True, False)]
        starts = [max(hill, key=heights.__getitem__) for hill in hills if hill]
        return max((climb(start) for start in starts), key=lambda found: found[0])[1]
