"""The evidence: how well f and λ0 explain the targets, and which explain them best."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import optimize, special

from dubio.progress import Progress
from dubio.regression.design import Design
from dubio.regression.posterior import Posterior
from dubio.regression.prior import Array, Prior
from dubio.regression.solver import Solver

_DROPS = (0.05, 0.5, 0.9)  # where to look first
_PRECISIONS = (1e-6, 1e-3, 1e-1, 10.0)  # in units of the mean square sum of a feature
_LEAST_KEEP = 1e-6
_WIDEST = 1e8  # bounds of the precision, in the same units


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


def evidence(posterior: Posterior) -> Evidence:
    """The evidence of the model that has eq. 14 of paper 003 for its posterior.

    The dropout term of eq. 13 is taken for what it does: it makes the prior of the weights
    N(0, σ²P⁻¹), P = λ0 I + f(1 − f) diag(XᵀX). With weights, intercept and noise integrated out,

        log p(y | X) = −½ log|K| + log Γ(a) − a log(2πb) − [½ log Σs]

    where log|K| = log|Λ| − log|P|, and the last term is the intercept's. The normaliser Z of eq. 9
    is smaller by ½ Σ_d log(P_d/λ0). It would never choose dropout: Z(f, λ0) <= Z(0, λ0/(1 − f)²),
    because (1 − f)w has the same prior on the right, and the dropout term, which is negative, is
    gone.

    With γ_d = 1 − P_d (Λ⁻¹)_dd and c = diag(XᵀX), the derivatives are

        ∂λ0:  ½ Σ γ_d/P_d − a/(2b) Σ μ_d²
        ∂f:   ½ (1 − 2f) Σ c_d γ_d/P_d + Σ γ_d/(1 − f)
              − a/(2b) Σ μ_d² (2P_d/(1 − f) + (1 − 2f) c_d).
    """
    posterior.check_noise()
    prior, shape, rate = posterior.prior, posterior.shape, posterior.rate
    penalty, squares = posterior.penalty, posterior.squares
    if prior.flat:
        raise ValueError(
            "prior_precision: expected > 0 where drop is 0, got 0: a flat prior has no evidence; "
            "set one of the two"
        )
    if not rate.all():
        raise ValueError(
            "y: expected targets that vary, got a constant, which every prior explains; choose "
            "drop and prior_precision by hand"
        )
    intercept = np.log(posterior.count) / 2 if posterior.intercept else 0.0
    constant = special.gammaln(shape) - posterior.factor.log_ratio / 2 - intercept
    value = np.sum(constant - shape * np.log(2 * np.pi * rate))

    determined = posterior.factor.determined
    tilt, keep = 1 - 2 * prior.drop, prior.keep
    growth = determined / penalty  # (D,)
    weights = np.square(posterior.mean) @ (shape / rate) / 2  # (D,): Σ_k a/(2b_k) μ_dk²
    drop = len(rate) * (tilt / 2 * squares @ growth + determined.sum() / keep)
    drop -= weights @ (2 * penalty / keep + tilt * squares)
    precision = len(rate) * growth.sum() / 2 - weights.sum()
    return Evidence(float(value), float(drop), float(precision))


def maximise(design: Design, y: Array, drop: float | None, precision: float | None) -> Prior:
    """The prior of the largest evidence; what is given stays, what is None is free.

    A coarse grid finds where to start, since the evidence may have two hills: one where features
    count by their size, and one where they do not.
    """
    unit = float(design.squares.mean()) or 1.0
    exact = Solver("cholesky")
    least_drop = 0.0 if precision is None or precision > 0 else _LEAST_KEEP
    axes, bounds = [], []
    if drop is None:
        axes.append(np.array(_DROPS))
        bounds.append((least_drop, 1 - _LEAST_KEEP))
    if precision is None:
        axes.append(np.log(unit * np.array(_PRECISIONS)))
        bounds.append((np.log(unit / _WIDEST), np.log(unit * _WIDEST)))

    def prior_at(point: Array) -> Prior:
        rate = float(point[0]) if drop is None else drop
        return Prior(rate, float(np.exp(point[-1])) if precision is None else precision)

    with Progress("evidence", None) as progress:

        def loss(point: Array) -> tuple[float, Array]:
            prior = prior_at(point)
            found = evidence(Posterior(design, y, prior, exact))
            progress.advance()
            slope = [found.drop_gradient] if drop is None else []
            slope += [found.prior_precision_gradient * prior.precision] if precision is None else []
            return -found.log_marginal_likelihood, -np.array(slope)

        starts = np.stack(np.meshgrid(*axes), -1).reshape(-1, len(axes))
        start = min(starts, key=lambda point: loss(point)[0])
        best = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return prior_at(best.x)
